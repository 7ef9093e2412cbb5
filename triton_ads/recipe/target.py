"""Generative targeting: which ads to consider, generated under an identifier tree. See docs/targeting.md."""

from typing import Literal, Self

from pydantic import Field, model_validator

from triton_ads.recipe.base import Float, Int, Name, Part


class Identifiers(Part):
    """How ads become paths of a tree: clusters of clusters of what they are like."""

    of: Literal["text", "behaviour", "both"] = Field(
        default="both", description="what ads are alike by: words they say of themselves, users who met them"
    )
    width: Int = Field(default=32, ge=1, le=1024, description="floats of a representation, of each kind")
    length: Int = Field(default=3, ge=1, le=16, description="tokens of an identifier: levels of the tree")
    branching: tuple[Int, ...] = Field(
        default=(), description="children of a node on each level; by default wide at the top, narrowing below"
    )

    @model_validator(mode="after")
    def _a_width_for_each_level(self) -> Self:
        if self.branching and (len(self.branching) != self.length or min(self.branching) < 1):
            raise ValueError(
                f"`branching` must have {self.length} numbers (`length`), each 1 or more, found {list(self.branching)}"
            )
        return self


class Generator(Part):
    """Sizes of the llama that continues prompts with identifiers."""

    layers: Int = Field(default=2, ge=1, le=128)
    width: Int = Field(default=128, ge=16, le=8192, multiple_of=16)
    heads: Int = Field(default=4, ge=1, le=128)
    kv_heads: Int = Field(default=2, ge=1, le=128)
    feed_forward: Int = Field(default=384, ge=16, le=32768, multiple_of=16)

    @model_validator(mode="after")
    def _heads_fit(self) -> Self:
        if self.width % (2 * self.heads):
            raise ValueError(f"`width` must be a multiple of 2 x `heads`, found {self.width} and {self.heads}")
        if self.heads % self.kv_heads:
            raise ValueError(f"`heads` must be a multiple of `kv_heads`, found {self.heads} and {self.kv_heads}")
        return self


class GeneratorTraining(Part):
    """How it is trained."""

    epochs: Int = Field(default=3, ge=1, le=1000)
    batch_size: Int = Field(default=64, ge=1, le=65536)
    learning_rate: Float = Field(default=2e-3, gt=0, le=1)
    weight_decay: Float = Field(default=0.01, ge=0, le=1)
    dropout: Float = Field(default=0.1, ge=0, lt=1, description="share of a prompt's tokens shown as another")
    query_share: Float = Field(default=0.3, ge=0, le=1, description="examples with a query, for each event")
    seed: Int = Field(default=0, ge=0, le=2**32 - 1)


class Target(Part):
    """What is read of a user, how ads are named, the model, the search, and every limit."""

    journey: Name = Field(description="the sequence of the recipe whose ads are learned and continued")
    events: Int = Field(default=20, ge=1, le=4096, description="of the journey, the most recent, in a prompt")
    query_words: Int = Field(default=6, ge=1, le=256, description="of a query, the first, in a prompt")
    identifiers: Identifiers = Identifiers()
    model: Generator = Generator()
    training: GeneratorTraining = GeneratorTraining()
    weights: Literal["bf16", "int4", "2:4 bf16", "2:4 int4", "1:4 int4", "mixed int4"] = Field(
        default="int4", description="how they are packed"
    )
    beam: Int = Field(default=20, ge=1, le=1024, description="nodes that survive a level; ads answered by default")
    mode: Literal["beam", "exact", "global"] = Field(
        default="exact",
        description="beam: as step-by-step beam search; exact: the best below the survivors; global: the best of all",
    )
    max_top: Int = Field(default=100, ge=1, le=1024, description="ads in an answer")
    max_nodes: Int = Field(default=4096, ge=1, le=2**20, description="nodes of the tree that one search may run")
    deadline_ms: Int = Field(default=200, ge=1, le=60_000, description="deadline of a request that sends none")
