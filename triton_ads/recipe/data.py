"""Where examples come from."""

from typing import Literal

from pydantic import Field

from triton_ads.recipe.base import Float, Part


class Data(Part):
    """Where examples come from, and the project's one global-time split."""

    source: Literal["movielens-100k"]
    train_fraction: Float = Field(default=0.8, gt=0, lt=1, description="earliest share of the examples, by time")
    validation_fraction: Float = Field(default=0.1, gt=0, lt=1, description="the share that follows")
