"""A whole recipe, and what its parts must have in common."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, PrivateAttr, model_validator

from triton_ads.recipe.base import Name, Part
from triton_ads.recipe.calibration import Calibration
from triton_ads.recipe.data import Data, Parquet
from triton_ads.recipe.expression import Expression, ExpressionError, parse_expression
from triton_ads.recipe.inputs import Column, Feature, Scenario, Sequence, Side, Table
from triton_ads.recipe.model import Heads, Tier, Training
from triton_ads.recipe.service import Router, Serving
from triton_ads.recipe.target import Target


class Recipe(Part):
    """A ranker and its service. See docs/recipe.md for every field with its meaning."""

    version: Literal[1] = 1
    name: Name
    data: Data
    tables: dict[Name, Table] = Field(min_length=1)
    features: tuple[Feature, ...] = Field(min_length=1)
    sequences: tuple[Sequence, ...] = ()
    scenario: Scenario | None = None
    labels: tuple[Name, ...] = Field(min_length=1, max_length=16)
    rank_by: str | None = Field(
        default=None, description="what orders the answer: a label, or an expression over labels and item columns"
    )
    heads: Heads = Heads()
    tiers: dict[Name, Tier] = Field(min_length=1, max_length=8)
    training: Training = Training()
    calibration: Calibration = Calibration()
    router: Router
    serving: Serving = Serving()
    target: Target | None = Field(default=None, description="generate the ads to rank, too")

    _folder: Path = PrivateAttr(default_factory=Path)

    @model_validator(mode="before")
    @classmethod
    def _integers_fit(cls, document: Any) -> Any:
        """Ids travel as int64, and so does every other integer that a recipe may hold, a tier's config included."""
        _int64("", document, set())
        return document

    @model_validator(mode="after")
    def _names_agree(self) -> Self:
        _unique("features", [f.name for f in self.features])
        _unique("sequences", [s.name for s in self.sequences])
        _unique("labels", list(self.labels))
        for i, feature in enumerate(self.features):
            if feature.table is not None:
                _known(f"features[{i}].table", feature.table, self.tables)
        for i, sequence in enumerate(self.sequences):
            _unique(f"sequences[{i}].fields", [f.name for f in sequence.fields])
            for j, field in enumerate(sequence.fields):
                _known(f"sequences[{i}].fields[{j}].table", field.table, self.tables)
        for side in ("user", "item"):
            if not any(f.side == side and f.table is not None for f in self.features):
                raise ValueError(f"features: no id feature of side {side}; at least one is needed")
        if self.scenario is not None:
            contexts = [f.name for f in self.features if f.side == "context" and f.kind == "id"]
            _known("scenario.feature", self.scenario.feature, contexts)
        if self.heads.by == "scenarios":
            if self.scenario is None or not self.heads.scenarios:
                raise ValueError("heads.by: scenarios needs `scenario` and a non-empty `heads.scenarios`")
            _known("scenario.default", self.scenario.default, self.heads.scenarios)
        if self.router.high_scenarios and self.scenario is None:
            raise ValueError("router.high_scenarios needs `scenario`")
        self._check_rank_rule()
        _known("router.default_tier", self.router.default_tier, self.tiers)
        if self.router.high_tier is not None:
            _known("router.high_tier", self.router.high_tier, self.tiers)
        if self.target is not None:
            _known("target.journey", self.target.journey, [s.name for s in self.sequences])
        if isinstance(self.data, Parquet):
            for name in self.data.histories:
                _known("data.histories", name, [s.name for s in self.sequences])
        if self.data.train_fraction + self.data.validation_fraction >= 1:
            raise ValueError("data: train_fraction + validation_fraction must be below 1, nothing is left to test on")
        return self

    def _check_rank_rule(self) -> None:
        try:
            rule = self.rank_rule
        except ExpressionError as error:
            raise ValueError(f"rank_by: {error}") from None
        both = sorted(set(rule.names) & set(self.labels) & set(self._rank_columns))
        if both and rule.text not in self.labels:
            raise ValueError(f"rank_by: {', '.join(both)}: a label and an item column have this name; rename one")

    def id_columns(self, *sides: Side) -> list[Column]:
        """Columns of the id tensor of `sides`, in declaration order within each side; `ids` take `length` columns."""
        return [
            Column(f.name, f.table, slot)
            for side in sides
            for f in self.features
            if f.side == side and f.table is not None
            for slot in range(f.length or 1)
        ]

    def dense_columns(self, *sides: Side) -> list[Column]:
        """Columns of the dense tensor of `sides`."""
        return [Column(f.name, None) for side in sides for f in self.features if f.side == side and f.kind == "dense"]

    def value_columns(self) -> list[Column]:
        """Columns of the value tensor of the item side: what `rank_by` reads beside scores and dense columns."""
        return [Column(f.name, None) for f in self.features if f.kind == "value"]

    @property
    def sequence_width(self) -> int:
        """Ids in the flat sequence tensor of one user: the sum of `length x fields` over sequences."""
        return sum(s.length * len(s.fields) for s in self.sequences)

    @property
    def unit_width(self) -> int:
        """Floats in a row of the physical table: a vector of width w is w / unit_width consecutive rows."""
        return math.gcd(*(t.width for t in self.tables.values()))

    @property
    def rank_rule(self) -> Expression:
        """What orders an answer, over the names of labels and of the item's dense and value columns."""
        rule = self.labels[0] if self.rank_by is None else self.rank_by
        return parse_expression(rule, [*self.labels, *self._rank_columns])

    @property
    def _rank_columns(self) -> list[str]:
        return [column.feature for column in (*self.dense_columns("item"), *self.value_columns())]

    def __eq__(self, other: object) -> bool:
        """Equal recipes say the same, wherever they were read from."""
        return isinstance(other, Recipe) and self.canonical() == other.canonical()

    @property
    def folder(self) -> Path:
        """What the recipe's relative paths are relative to: the folder of its file. Not part of what a recipe says."""
        return self._folder

    def canonical(self) -> str:
        """The recipe as JSON without what is as by default: equal recipes give equal text, before and after a field
        that they do not use was added to the format."""
        return json.dumps(self.model_dump(mode="json", exclude_defaults=True), sort_keys=True, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """sha256 of the canonical text."""
        return hashlib.sha256(self.canonical().encode()).hexdigest()


def _int64(where: str, value: object, seen: set[int]) -> None:
    """Refuse integers that are no int64. `seen`: containers, by identity: an alias of YAML may lead back to its own."""
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            # Python refuses to print integers of many digits.
            found = value if value.bit_length() <= 128 else f"one of {value.bit_length()} bits"
            raise ValueError(f"{where}: an integer must fit int64, {-(2**63)} to {2**63 - 1}, found {found}")
    elif isinstance(value, dict | list | tuple) and id(value) not in seen:
        seen.add(id(value))
        steps = value.items() if isinstance(value, dict) else enumerate(value)
        for step, inner in steps:
            _int64(f"{where}[{step}]" if isinstance(step, int) else f"{where}.{step}".lstrip("."), inner, seen)


def _unique(where: str, names: list[str]) -> None:
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise ValueError(f"{where}: {', '.join(twice)} declared twice; names must differ")


def _known(where: str, value: object, allowed: Any) -> None:
    if value not in allowed:
        raise ValueError(f"{where}: {value!r} is not known; allowed: {', '.join(map(str, allowed)) or 'none'}")
