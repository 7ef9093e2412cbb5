"""Which tier answers, and every limit of the service."""

from typing import Literal, Self

from pydantic import Field, model_validator

from triton_ads.recipe.base import Float, Int, Name, Part, RawId


class Router(Part):
    """When the high tier is worth its cost, and what it may cost."""

    kind: Literal["rules", "learned"] = Field(
        default="rules", description="by the length of the history, or by a model of what the high tier gains"
    )
    default_tier: Name
    high_tier: Name | None = None
    min_history: Int = Field(
        default=20, ge=0, description="of kind rules: events of history below which the default tier answers"
    )
    max_candidates: Int = Field(default=1000, ge=1, description="candidates above which the default tier answers")
    high_scenarios: tuple[RawId, ...] = Field(
        default=(), description="scenarios in which the high tier may answer; empty: in all"
    )
    high_candidates_per_second: Float = Field(
        default=4_000, ge=0, description="budget of the high tier: candidates a second it may score"
    )

    @model_validator(mode="after")
    def _two_tiers_to_choose_from(self) -> Self:
        if self.kind == "learned" and self.high_tier in (None, self.default_tier):
            raise ValueError(f"kind learned needs a `high_tier` other than default_tier, found {self.high_tier}")
        return self

    @property
    def learned(self) -> bool:
        return self.kind == "learned"


class Serving(Part):
    """Every limit of the service."""

    prefix: Name | None = Field(
        default=None, description="of the names of the Triton models; several recipes on one server need one each"
    )
    layout: Literal["single", "ensemble"] = Field(
        default="single",
        description="single: one Triton model does all in one process; ensemble: router, encoder and scorer are models",
    )
    tile: Int = Field(default=64, ge=1, le=1024, description="candidates in a tile, all of one user")
    buckets: tuple[Int, ...] = Field(default=(1, 2, 4, 8, 16, 32), min_length=1, description="tiles in a batch")
    max_candidates: Int = Field(default=2000, ge=1, le=100_000, description="candidates in a request")
    max_batch_requests: Int = Field(default=64, ge=1, le=1024, description="requests in a batch")
    max_queue: Int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="requests that may wait for a model; more are refused at once; 0: any number. "
        "With a bound Triton at times leaves a lone request waiting, half a second at most (docs/serving.md)",
    )
    queue_delay_us: Int = Field(default=0, ge=0, le=100_000, description="how long a batch may wait to fill")
    deadline_ms: Int = Field(default=100, ge=1, le=60_000, description="deadline of a request that sends none")
    instances: Int = Field(default=1, ge=1, le=64, description="processes of each model")
    threads: Int = Field(default=1, ge=1, le=256, description="threads of an engine in one process")

    @model_validator(mode="after")
    def _buckets_grow(self) -> Self:
        if any(b < 1 for b in self.buckets) or list(self.buckets) != sorted(set(self.buckets)):
            raise ValueError(f"`buckets` must be positive and strictly increasing, found {list(self.buckets)}")
        return self
