"""What a compression is asked for, from a YAML file: validated, nothing unknown accepted."""

from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from triton_ads.compression.importance import GRADIENT_SHARE, Criterion
from triton_ads.compression.llama_config import HEAD
from triton_ads.compression.patterns import Pattern, Values

GroupSize = Literal[32, 64, 128, 256]


class CompressionRecipeError(ValueError):
    """A recipe that cannot be used; the message names the field, the value found and what is allowed."""


class Rounding(StrEnum):
    """How the codes of INT4 values are found."""

    NEAREST = "nearest"
    FITTED = "fitted"
    COMPENSATED = "compensated"


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class CalibrationPart(Part):
    """The text that shows what matters."""

    text: tuple[Path, ...] = ()
    """UTF-8 files, beside the recipe or absolute; none: the documentation that comes with Python."""
    sequences: Annotated[int, Field(ge=1, le=4096)] = 16
    tokens: Annotated[int, Field(ge=8, le=8192)] = 512
    """Tokens of a sequence."""


class BudgetPart(Part):
    """The most that the packed matrices may take; exactly one of three ways to say it."""

    bits_per_weight: Annotated[float, Field(gt=0, le=16)] | None = None
    """Mean over all matrices, the head's among them; scales, indices and padding count."""
    megabytes_per_token: Annotated[float, Field(gt=0)] | None = None
    """10^6 bytes that decoding reads for a token. It is what limits its speed."""
    megabytes: Annotated[float, Field(gt=0)] | None = None
    """10^6 bytes of the whole model: matrices, embeddings, norms."""

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in type(self).model_fields if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"{given or 'nothing'} given; exactly one of {sorted(type(self).model_fields)} is needed")
        return self


class GroupsPart(Part):
    """Weights that share a scale."""

    kind: Literal["adaptive", "uniform"] = "adaptive"
    size: GroupSize = 64
    """uniform: the size of every group. adaptive: all groups together take the bytes of this uniform size, or the
    budget where one is given."""


class RecoveryPart(Part):
    """Training of what is left, under the masks and scales found, to answer as the uncompressed model does."""

    steps: Annotated[int, Field(ge=1, le=1000)] = 100
    sequences: Annotated[int, Field(ge=1, le=64)] = 4
    """Sequences of a step."""
    tokens: Annotated[int, Field(ge=8, le=2048)] = 256
    learning_rate: Annotated[float, Field(gt=0, le=1)] = 0.01
    """In steps of the grid: what one update moves a weight by, at most."""


class CompressionRecipe(Part):
    patterns: Annotated[tuple[Pattern, ...], Field(min_length=1)] = (Pattern.TWO_OF_FOUR, Pattern.ONE_OF_FOUR)
    """Choices for every matrix. Several need a budget."""
    fixed: dict[str, Pattern] = Field(default_factory=lambda: {HEAD: Pattern.DENSE})
    """Name of a matrix, `*` for any part of it -> its pattern. The first that fits counts."""
    values: Values = Values.INT4
    budget: BudgetPart | None = None
    criterion: Criterion = Criterion.GRADIENT
    gradient_share: Annotated[float, Field(ge=0, le=1)] = GRADIENT_SHARE
    groups: GroupsPart = GroupsPart()
    rounding: Rounding = Rounding.COMPENSATED
    calibration: CalibrationPart = CalibrationPart()
    recovery: RecoveryPart | None = None

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if len(set(self.patterns)) != len(self.patterns):
            raise ValueError(f"patterns {[*map(str, self.patterns)]} name one twice")
        if len(self.patterns) > 1 and self.budget is None:
            raise ValueError(f"patterns {[*map(str, self.patterns)]} are a choice; a choice needs a budget")
        if self.values is Values.BF16 and self.budget is not None and len(self.patterns) == 1:
            raise ValueError("a budget with one pattern and bf16 values leaves nothing to choose")
        return self

    def choices(self, name: str) -> tuple[Pattern, ...]:
        """Patterns that a matrix may get, from dense to sparse."""
        for glob, pattern in self.fixed.items():
            if fnmatchcase(name, glob):
                return (pattern,)
        return tuple(sorted(self.patterns, key=lambda pattern: -pattern.kept))


def parse_compression_recipe(document: object, source: str = "recipe") -> CompressionRecipe:
    """Validate a decoded YAML document.

    Raises CompressionRecipeError naming every wrong field, the value found and what is allowed.
    """
    try:
        return CompressionRecipe.model_validate(document)
    except ValidationError as error:
        lines = [_explain(one) for one in error.errors(include_url=False)]
        raise CompressionRecipeError(f"{source}: " + "\n".join(lines)) from None


def _explain(error: Any) -> str:
    where = ".".join(map(str, error["loc"]))
    message = error["msg"].removeprefix("Value error, ")
    if error["type"] == "extra_forbidden":
        message = "no such field"
    shown = "" if isinstance(error.get("input"), dict | BaseModel) else f", found {error['input']!r}"
    return f"{where}: {message}{shown}" if where else message


def load_compression_recipe(path: Path) -> CompressionRecipe:
    """Read and validate a recipe file; paths of text in it are relative to it.

    Raises CompressionRecipeError where it is missing, is no YAML or says something that is not allowed.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CompressionRecipeError(f"{path}: {error.strerror or error}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise CompressionRecipeError(f"{path}: not YAML: {error}") from None
    recipe = parse_compression_recipe(document, str(path))
    text = tuple(path.parent / one for one in recipe.calibration.text)
    return recipe.model_copy(update={"calibration": recipe.calibration.model_copy(update={"text": text})})
