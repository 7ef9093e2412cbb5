"""Settings of a tier's model: what `tiers.NAME.config` of a recipe may say, checked before anything is built."""

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from triton_ads.recipe import RecipeError


class ModelConfig(BaseModel):
    """Base of every model's settings: frozen, strict in types, and closed to unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Config = TypeVar("Config", bound=ModelConfig)


def read_config(kind: type[Config], settings: dict[str, Any], where: str) -> Config:
    """The settings of a tier as `kind`; `where` is their place in the recipe, for messages.

    Raises:
        RecipeError: naming every wrong key, the value found and what is allowed.
    """
    try:
        return kind.model_validate(settings)
    except ValidationError as error:
        allowed = ", ".join(kind.model_fields)
        lines = []
        for e in error.errors(include_url=False):
            key = ".".join([where, *map(str, e["loc"])])
            if e["type"] == "extra_forbidden":
                lines.append(f"{key}: not known, found {e['input']!r}; allowed: {allowed}")
            else:
                lines.append(f"{key}: {e['msg']}, found {e['input']!r}")
        raise RecipeError("\n".join(lines)) from None
