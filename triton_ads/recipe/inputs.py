"""What a model reads: tables of ids, features, histories, the scenario."""

from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from triton_ads.recipe.base import Int, Name, Part, RawId

Side = Literal["user", "context", "item"]


class Table(Part):
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


class Feature(Part):
    """One input of one side. `id`: one id; `ids`: up to `length` ids, mean-pooled; `dense`: one float.

    `value` is a float of an item that `rank_by` reads and the model does not: a bid, a margin.
    """

    name: Name
    side: Side
    kind: Literal["id", "ids", "dense", "value"] = "id"
    table: Name | None = Field(default=None, description="required for id and ids")
    length: Int | None = Field(default=None, ge=1, le=256, description="required for ids")

    @model_validator(mode="after")
    def _fields_of_the_kind(self) -> Self:
        if (self.kind in ("id", "ids")) != (self.table is not None):
            raise ValueError("`table` is required for kinds id and ids and not allowed for kinds dense and value")
        if (self.kind == "ids") != (self.length is not None):
            raise ValueError("`length` is required for kind ids and not allowed for other kinds")
        if self.kind == "value" and self.side != "item":
            raise ValueError(f"kind value is of side item only, found {self.side}")
        return self


class SequenceField(Part):
    """One id of an event of a sequence."""

    name: Name
    table: Name


class Sequence(Part):
    """A history of the user, most recent event first, padded with PAD to `length`."""

    name: Name
    length: Int = Field(ge=1, le=4096)
    fields: tuple[SequenceField, ...] = Field(min_length=1, max_length=16)


class Scenario(Part):
    """The context feature that tells one placement from another; an unknown value is answered as `default`."""

    feature: Name
    default: RawId


@dataclass(frozen=True)
class Column:
    """One column of an id, dense or value tensor. `slot` counts the ids of a multi-valued feature from 0."""

    feature: str
    table: str | None
    slot: int = 0
