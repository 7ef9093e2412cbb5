"""Generative targeting: which ads to consider, generated under an identifier tree. See docs/targeting.md."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from triton_ads.recipe.base import Float, Int, Name, Part


def changed(part: Part, *fields: str) -> list[str]:
    """Those of the fields that are not as by default."""
    return [name for name in fields if getattr(part, name) != type(part).model_fields[name].default]


class Identifiers(Part):
    """How ads become paths of a tree: clusters of clusters of what they are like, or their titles."""

    of: Literal["text", "behaviour", "both", "titles"] = Field(
        default="both",
        description="what ads are alike by: words they say of themselves, users who met them; or their titles",
    )
    width: Int = Field(default=32, ge=1, le=1024, description="floats of a representation, of each kind")
    length: Int = Field(default=3, ge=1, le=16, description="tokens of an identifier: levels of the tree")
    branching: tuple[Int, ...] = Field(
        default=(), description="children of a node on each level; by default wide at the top, narrowing below"
    )
    longest: Int = Field(default=32, ge=2, le=256, description="tokens of a title, its end included, at most")

    @model_validator(mode="after")
    def _of_clusters_or_of_titles(self) -> Self:
        wrong = ("width", "length", "branching") if self.of == "titles" else ("longest",)
        found = changed(self, *wrong)
        if found:
            raise ValueError(f"`{found[0]}` means nothing with `of: {self.of}`; remove it")
        return self

    @model_validator(mode="after")
    def _a_width_for_each_level(self) -> Self:
        if self.branching and (len(self.branching) != self.length or min(self.branching) < 1):
            raise ValueError(
                f"`branching` must have {self.length} numbers (`length`), each 1 or more, found {list(self.branching)}"
            )
        return self


class Generator(Part):
    """The llama that continues prompts with identifiers: the sizes of one that is trained, or one that there is."""

    checkpoint: Annotated[str, Field(min_length=1)] | None = Field(
        default=None,
        description="instead of training one: smollm2-135m, a Hugging Face folder or GGUF file, or a packed model",
    )
    layers: Int = Field(default=2, ge=1, le=128)
    width: Int = Field(default=128, ge=16, le=8192, multiple_of=16)
    heads: Int = Field(default=4, ge=1, le=128)
    kv_heads: Int = Field(default=2, ge=1, le=128)
    feed_forward: Int = Field(default=384, ge=16, le=32768, multiple_of=16)

    @model_validator(mode="after")
    def _a_checkpoint_has_its_sizes(self) -> Self:
        found = changed(self, "layers", "width", "heads", "kv_heads", "feed_forward")
        if self.checkpoint is not None and found:
            raise ValueError(f"`checkpoint` brings its own sizes; remove `{found[0]}`")
        return self

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


class PromptText(Part):
    """What stands before the titles that a prompt lists, one a line; of identifiers that are titles."""

    journey: str = Field(default="A list of titles:\n", description="where nothing is asked for")
    query: str = Field(default="A list of titles about {query}:\n", description="around what is asked for")

    @model_validator(mode="after")
    def _a_line_each(self) -> Self:
        for name in ("journey", "query"):
            text = getattr(self, name)
            if not text.endswith("\n"):
                raise ValueError(f"`{name}` must end with an end of line (in YAML: double quotes), found {text!r}")
        if self.query.count("{query}") != 1:
            raise ValueError(f"`query` must hold {{query}} once, found {self.query!r}")
        return self


class Target(Part):
    """What is read of a user, how ads are named, the model, the search, and every limit."""

    journey: Name = Field(description="the sequence of the recipe whose ads are learned and continued")
    events: Int = Field(default=20, ge=1, le=4096, description="of the journey, the most recent, in a prompt")
    query_words: Int = Field(default=6, ge=1, le=256, description="of a query, the first, in a prompt")
    text: PromptText = PromptText()
    identifiers: Identifiers = Identifiers()
    model: Generator = Generator()
    training: GeneratorTraining = GeneratorTraining()
    weights: Literal["bf16", "int4", "2:4 bf16", "2:4 int4", "1:4 int4", "mixed int4", "packed"] = Field(
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
    questions: Int = Field(default=500, ge=1, le=100_000, description="of the test part, on which answers are judged")

    @model_validator(mode="after")
    def _a_model_for_the_identifiers(self) -> Self:
        if self.identifiers.of == "titles" and self.model.checkpoint is None:
            raise ValueError("`identifiers: {of: titles}` needs `model: {checkpoint: ...}`, whose tokens they are")
        if self.weights == "packed" and self.model.checkpoint is None:
            raise ValueError("`weights: packed` needs `model: {checkpoint: ...}`, a folder of packed weights")
        if self.identifiers.of != "titles" and changed(self, "text"):
            raise ValueError("`text` is of identifiers that are titles; remove it")
        return self
