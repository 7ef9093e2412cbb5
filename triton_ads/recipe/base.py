"""What every part of a recipe is made of: names, numbers, ids, and the refusal of what is not known."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, Strict

Name = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,62}$")]


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


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
