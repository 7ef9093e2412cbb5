"""The recipe: what a ranker reads, learns and is allowed to cost. One YAML file, validated, hashed.

A recipe is read by both sides: the build trains and exports what it says, the server enforces the limits it sets.
Ids live in *tables*. A table is an id space and the width of its vectors; features and sequence fields that name
the same table share its vectors. All tables of a tier are stored as one physical table, so that a side of the model
needs one gather.

    raw ids  --(vocabulary or hash)-->  rows of a table  --(offsets)-->  rows of the physical table

Features are read in the order in which they are declared; `columns` gives that order, and it is the wire's order.
"""

import hashlib
import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    Strict,
    ValidationError,
    model_validator,
)

RECIPE_VERSION = 1

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
Side = Literal["user", "context", "item"]


def _no_bool(value: object) -> object:
    """`true` would count as 1."""
    if isinstance(value, bool):
        raise ValueError("Input should be a number")
    return value


def _utf8(value: str) -> str:
    """The id of a text is the hash of these bytes."""
    value.encode()
    return value


Int = Annotated[int, Strict()]
Float = Annotated[float, BeforeValidator(_no_bool)]
RawId = Int | Annotated[str, AfterValidator(_utf8)]


class RecipeError(ValueError):
    """A recipe that cannot be used; the message names the field, the value found and what is allowed."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class Table(_Part):
    """An id space: rows 0 (PAD), 1 (OOV) and its real ids from 2."""

    kind: Literal["vocabulary", "hashed"] = Field(
        description="vocabulary: ids seen in training; hashed: xxh64 into `rows` rows"
    )
    width: Int = Field(ge=4, le=1024, multiple_of=4, description="floats in a vector")
    rows: Int | None = Field(default=None, ge=1, le=2**31, description="real rows of a hashed table")

    @model_validator(mode="after")
    def _rows_only_where_hashed(self) -> Self:
        if (self.kind == "hashed") != (self.rows is not None):
            raise ValueError("`rows` is required for kind hashed and not allowed for kind vocabulary")
        return self


class Feature(_Part):
    """One input of one side. `id`: one id; `ids`: up to `length` ids, mean-pooled; `dense`: one float."""

    name: Name
    side: Side
    kind: Literal["id", "ids", "dense"] = "id"
    table: Name | None = Field(default=None, description="required for id and ids")
    length: Int | None = Field(default=None, ge=1, le=256, description="required for ids")

    @model_validator(mode="after")
    def _fields_of_the_kind(self) -> Self:
        if (self.kind == "dense") != (self.table is None):
            raise ValueError("`table` is required for kinds id and ids and not allowed for kind dense")
        if (self.kind == "ids") != (self.length is not None):
            raise ValueError("`length` is required for kind ids and not allowed for other kinds")
        return self


class SequenceField(_Part):
    """One id of an event of a sequence."""

    name: Name
    table: Name


class Sequence(_Part):
    """A history of the user, most recent event first, padded with PAD to `length`."""

    name: Name
    length: Int = Field(ge=1, le=4096)
    fields: tuple[SequenceField, ...] = Field(min_length=1, max_length=16)


class Scenario(_Part):
    """The context feature that tells one placement from another; an unknown value is answered as `default`."""

    feature: Name
    default: RawId


class Heads(_Part):
    """What the prediction heads stand for: one per label, or one per scenario and label, chosen by the request."""

    by: Literal["labels", "scenarios"] = "labels"
    scenarios: tuple[RawId, ...] = Field(default=(), description="raw scenario ids, for by: scenarios")


class Tier(_Part):
    """A model at one complexity. `config` holds the model's own settings and is checked by the model."""

    model: Literal["hyformer", "wukong"]
    config: dict[str, Any] = {}

    @model_validator(mode="after")
    def _config_is_json(self) -> Self:
        """The digest and the manifest are made of it."""
        try:
            json.dumps(self.config, ensure_ascii=False).encode()
        except (TypeError, ValueError) as error:
            raise ValueError(f"`config` must hold numbers, text, lists and mappings only: {error}") from None
        return self


class Training(_Part):
    epochs: Int = Field(default=1, ge=1, le=100)
    batch_size: Int = Field(default=512, ge=2, le=65536)
    learning_rate_dense: Float = Field(default=1e-3, gt=0, le=1)
    learning_rate_sparse: Float = Field(default=1e-2, gt=0, le=1)
    weight_decay: Float = Field(default=1e-4, ge=0, le=1)
    oov_rate: Float = Field(default=0.1, ge=0, lt=1, description="share of training ids shown to the model as OOV")
    max_examples: Int | None = Field(default=None, ge=1, description="train on the most recent examples only")
    seed: Int = Field(default=0, ge=0, le=2**32 - 1)


class Data(_Part):
    """Where examples come from, and the project's one global-time split."""

    source: Literal["movielens-100k"]
    train_fraction: Float = Field(default=0.8, gt=0, lt=1, description="earliest share of the examples, by time")
    validation_fraction: Float = Field(default=0.1, gt=0, lt=1, description="the share that follows")


class Router(_Part):
    """When the high tier is worth its cost, and what it may cost."""

    default_tier: Name
    high_tier: Name | None = None
    min_history: Int = Field(default=20, ge=0, description="events of history below which the default tier answers")
    max_candidates: Int = Field(default=1000, ge=1, description="candidates above which the default tier answers")
    high_scenarios: tuple[RawId, ...] = Field(
        default=(), description="scenarios in which the high tier may answer; empty: in all"
    )
    high_candidates_per_second: Float = Field(
        default=4_000, ge=0, description="budget of the high tier: candidates a second it may score"
    )


class Serving(_Part):
    """Every limit of the service."""

    tile: Int = Field(default=64, ge=1, le=1024, description="candidates in a tile, all of one user")
    buckets: tuple[Int, ...] = Field(default=(1, 2, 4, 8, 16, 32), min_length=1, description="tiles in a batch")
    max_candidates: Int = Field(default=2000, ge=1, le=100_000, description="candidates in a request")
    max_batch_requests: Int = Field(default=64, ge=1, le=1024, description="requests in a batch")
    queue_delay_us: Int = Field(default=0, ge=0, le=100_000, description="how long a batch may wait to fill")
    deadline_ms: Int = Field(default=100, ge=1, le=60_000, description="deadline of a request that sends none")
    instances: Int = Field(default=1, ge=1, le=64, description="processes of each model")
    threads: Int = Field(default=1, ge=1, le=256, description="threads of an engine in one process")

    @model_validator(mode="after")
    def _buckets_grow(self) -> Self:
        if any(b < 1 for b in self.buckets) or list(self.buckets) != sorted(set(self.buckets)):
            raise ValueError(f"`buckets` must be positive and strictly increasing, found {list(self.buckets)}")
        return self


@dataclass(frozen=True)
class Column:
    """One column of an id or dense tensor. `slot` counts the ids of a multi-valued feature from 0."""

    feature: str
    table: str | None
    slot: int = 0


class Recipe(_Part):
    """A ranker and its service. See docs/recipe.md for every field with its meaning."""

    version: Literal[1] = 1
    name: Name
    data: Data
    tables: dict[Name, Table] = Field(min_length=1)
    features: tuple[Feature, ...] = Field(min_length=1)
    sequences: tuple[Sequence, ...] = ()
    scenario: Scenario | None = None
    labels: tuple[Name, ...] = Field(min_length=1, max_length=16)
    rank_by: Name | None = Field(default=None, description="the label whose score orders the answer; the first one")
    heads: Heads = Heads()
    tiers: dict[Name, Tier] = Field(min_length=1, max_length=8)
    training: Training = Training()
    router: Router
    serving: Serving = Serving()

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
            if not any(f.side == side and f.kind != "dense" for f in self.features):
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
        if self.rank_by is not None:
            _known("rank_by", self.rank_by, self.labels)
        _known("router.default_tier", self.router.default_tier, self.tiers)
        if self.router.high_tier is not None:
            _known("router.high_tier", self.router.high_tier, self.tiers)
        if self.data.train_fraction + self.data.validation_fraction >= 1:
            raise ValueError("data: train_fraction + validation_fraction must be below 1, nothing is left to test on")
        return self

    def id_columns(self, *sides: Side) -> list[Column]:
        """Columns of the id tensor of `sides`, in declaration order within each side; `ids` take `length` columns."""
        return [
            Column(f.name, f.table, slot)
            for side in sides
            for f in self.features
            if f.side == side and f.kind != "dense"
            for slot in range(f.length or 1)
        ]

    def dense_columns(self, *sides: Side) -> list[Column]:
        """Columns of the dense tensor of `sides`."""
        return [Column(f.name, None) for side in sides for f in self.features if f.side == side and f.kind == "dense"]

    @property
    def sequence_width(self) -> int:
        """Ids in the flat sequence tensor of one user: the sum of `length x fields` over sequences."""
        return sum(s.length * len(s.fields) for s in self.sequences)

    @property
    def unit_width(self) -> int:
        """Floats in a row of the physical table: a vector of width w is w / unit_width consecutive rows."""
        return math.gcd(*(t.width for t in self.tables.values()))

    @property
    def rank_label(self) -> str:
        return self.rank_by or self.labels[0]

    def canonical(self) -> str:
        """The recipe as JSON with every default written out: equal recipes give equal text."""
        return json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))

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


def parse_recipe(document: object, source: str = "recipe") -> Recipe:
    """Validate a decoded YAML document.

    Raises:
        RecipeError: naming every wrong field, the value found and what is allowed.
    """
    try:
        return Recipe.model_validate(document)
    except ValidationError as error:
        lines = [_explain(e) for e in error.errors(include_url=False)]
        raise RecipeError(f"{source}: " + "\n".join(lines)) from None
    except RecursionError:
        raise RecipeError(f"{source}: nested too deeply") from None


def _explain(error: Any) -> str:
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error["loc"]).lstrip(".")
    message, found = error["msg"].removeprefix("Value error, "), error.get("input")
    if error["type"] == "extra_forbidden":
        return f"{where}: no such field; allowed: {', '.join(_fields_beside(error['loc']))}"
    if error["type"] == "missing":
        return f"{where}: this field is required"
    shown = "" if isinstance(found, dict | BaseModel) or found is None else f", found {found!r}"
    return f"{where}: {message}{shown}" if where else message


def _fields_beside(place: tuple[int | str, ...]) -> list[str]:
    """The fields of the part of a recipe in which `place`, the address of a value, lies."""
    part: Any = Recipe
    for step in place[:-1]:
        if _is_part(part):
            annotation = part.model_fields[str(step)].annotation
            part = next(
                (a for a in get_args(annotation) if _is_part(a) and type(None) in get_args(annotation)), annotation
            )
        else:  # an entry of a tuple or of a dict
            part = next(a for a in get_args(part) if _is_part(a))
    return sorted(part.model_fields)


def _is_part(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def load_recipe(path: Path) -> Recipe:
    """Read and validate a recipe file.

    Raises:
        RecipeError: the file is missing, is no YAML, or says something that is not allowed.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror or error}") from None
    except RecursionError:
        raise RecipeError(f"{path}: nested too deeply") from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
        # PyYAML's own errors; and Python's for a value that its tag does not allow: 2026-13-45, !!bool x
        raise RecipeError(f"{path}: not YAML: {error}") from None
    return parse_recipe(document, str(path))


def recipe_schema() -> dict[str, Any]:
    """The JSON schema of a recipe, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Recipe.model_json_schema()}
