"""What is trained: heads, tiers, and how."""

import json
import re
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from triton_ads.recipe.base import Float, Int, Part, RawId


class Heads(Part):
    """What the prediction heads stand for: one per label, or one per scenario and label, chosen by the request."""

    by: Literal["labels", "scenarios"] = "labels"
    scenarios: tuple[RawId, ...] = Field(default=(), description="raw scenario ids, for by: scenarios")


BUILT_IN = ("hyformer", "wukong")
_OWN = r"^.+\.py:[A-Za-z_][A-Za-z0-9_]*$"


def _known_or_own(value: str) -> str:
    if value not in BUILT_IN and not re.match(_OWN, value):
        allowed = ", ".join(repr(name) for name in BUILT_IN)
        raise ValueError(f"Input should be {allowed} or FILE.py:CLASS")
    return value


class Tier(Part):
    """A model at one complexity. `config` holds the model's own settings and is checked by the model."""

    model: Annotated[
        str,
        AfterValidator(_known_or_own),
        WithJsonSchema({"anyOf": [{"enum": list(BUILT_IN)}, {"type": "string", "pattern": _OWN}]}),
    ] = Field(description="a model of triton_ads.models, or a class of a file beside the recipe")
    config: dict[str, Any] = Field(default={})

    @model_validator(mode="after")
    def _config_is_json(self) -> Self:
        """The digest and the manifest are made of it."""
        try:
            json.dumps(self.config, ensure_ascii=False).encode()
        except (TypeError, ValueError) as error:
            raise ValueError(f"`config` must hold numbers, text, lists and mappings only: {error}") from None
        return self

    @property
    def own(self) -> bool:
        """Whether the model is FILE.py:CLASS."""
        return self.model not in BUILT_IN


class Training(Part):
    epochs: Int = Field(default=1, ge=1, le=100)
    batch_size: Int = Field(default=512, ge=2, le=65536)
    learning_rate_dense: Float = Field(default=1e-3, gt=0, le=1)
    learning_rate_sparse: Float = Field(default=1e-2, gt=0, le=1)
    weight_decay: Float = Field(default=1e-4, ge=0, le=1)
    oov_rate: Float = Field(default=0.1, ge=0, lt=1, description="share of training ids shown to the model as OOV")
    max_examples: Int | None = Field(default=None, ge=1, description="train on the most recent examples only")
    seed: Int = Field(default=0, ge=0, le=2**32 - 1)
