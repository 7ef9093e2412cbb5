"""Where examples come from: one part a source, told apart by `source`."""

from typing import Annotated, Literal

from pydantic import Field

from triton_ads.recipe.base import Float, Name, Part

ColumnName = Annotated[str, Field(min_length=1)]
Files = Annotated[str, Field(min_length=1)]


class Source(Part):
    """What all sources have in common: the one split of the examples, by global time."""

    source: str
    train_fraction: Float = Field(default=0.8, gt=0, lt=1, description="earliest share of the examples, by time")
    validation_fraction: Float = Field(default=0.1, gt=0, lt=1, description="the share that follows")


class MovieLens(Source):
    """MovieLens-100k, fetched when it is first needed."""

    source: Literal["movielens-100k"]


class Parquet(Source):
    """Parquet files of one's own. Paths are relative to the recipe file; each is a file, a folder or a pattern.

    Columns have the names that the recipe uses, or those that `columns` gives.
    """

    source: Literal["parquet"]
    events: Files = Field(description="one row an example: a user met an item at a time, and what came of it")
    users: Files | None = Field(default=None, description="one row a user")
    items: Files | None = Field(default=None, description="one row an item")
    user: ColumnName = Field(default="user_id", description="column that identifies the user, in events and users")
    item: ColumnName = Field(default="item_id", description="column that identifies the item, in events and items")
    time: ColumnName = Field(default="time", description="column of the events: unix seconds, a timestamp or a date")
    title: ColumnName | None = Field(default=None, description="column of the items: what to show a person")
    histories: dict[Name, ColumnName] = Field(
        default={}, description="sequence -> boolean column of the events it holds; all where not named"
    )
    columns: dict[Name, ColumnName] = Field(
        default={}, description="feature, label or field -> its column, where the column has another name"
    )


Data = Annotated[MovieLens | Parquet, Field(discriminator="source")]
