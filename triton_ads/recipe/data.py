"""Where examples come from: one part a source, told apart by `source`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from triton_ads.recipe.base import Float, Int, Name, Part

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


class Synthetic(Source):
    """A made-up world of ads, in which the best reachable prediction is known. A seed and a size make one world."""

    source: Literal["synthetic"]
    users: Int = Field(default=24_000, ge=1, le=10**9, description="people, each with a journey")
    items: Int = Field(default=300, ge=1, le=10**7, description="ads")
    events: Int = Field(default=260_000, ge=1, le=10**9, description="ads shown, each an example")
    days: Int = Field(
        default=60, ge=1, le=3650, description="days that the world lasts; an interest fades within about 5"
    )
    seed: Int = Field(default=0, ge=0, le=2**32 - 1, description="of everything in the world")
    members: Float = Field(default=0.1, ge=0, le=1, description="share of users with long journeys")
    member_events: Float = Field(default=0.65, ge=0, le=1, description="share of events that are members'")

    @model_validator(mode="after")
    def _who_has_events_exists(self) -> Self:
        members = int(self.users * self.members)
        for group, number, share in (
            ("members", members, self.member_events),
            ("users who are no members", self.users - members, 1 - self.member_events),
        ):
            if share > 0 and not number:
                raise ValueError(f"{group}: none of {self.users} users, but {share:g} of the events are theirs")
        return self


Data = Annotated[MovieLens | Parquet | Synthetic, Field(discriminator="source")]
