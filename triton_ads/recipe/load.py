"""From a file to a recipe, or to an error that a person can act on."""

from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError

from triton_ads.recipe.base import RecipeError
from triton_ads.recipe.recipe import Recipe


def parse_recipe(document: object, source: str = "recipe", folder: Path = Path()) -> Recipe:
    """Validate a decoded YAML document.

    Args:
        source: what messages call it.
        folder: what the recipe's relative paths are relative to.

    Raises:
        RecipeError: naming every wrong field, the value found and what is allowed.
    """
    try:
        recipe = Recipe.model_validate(document)
    except ValidationError as error:
        lines = [_explain(e) for e in error.errors(include_url=False)]
        raise RecipeError(f"{source}: " + "\n".join(lines)) from None
    except RecursionError:
        raise RecipeError(f"{source}: nested too deeply") from None
    recipe._folder = folder
    return recipe


def _explain(error: Any) -> str:
    place, part = _locate(error["loc"])
    message, found = error["msg"].removeprefix("Value error, "), error.get("input")
    if error["type"].startswith("union_tag"):
        tag = error["ctx"]["discriminator"].strip("'")
        place, found = [*place, tag], found.get(tag)
        message = f"Input should be {error['ctx'].get('expected_tags', '').replace(', ', ' or ')}"
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place).lstrip(".")
    if error["type"] == "extra_forbidden" and part is not None:
        return f"{where}: no such field; allowed: {', '.join(sorted(part.model_fields))}"
    if error["type"] in ("missing", "union_tag_not_found"):
        return f"{where}: this field is required"
    shown = "" if isinstance(found, dict | BaseModel) or found is None else f", found {found!r}"
    return f"{where}: {message}{shown}" if where else message


def _locate(steps: tuple[int | str, ...]) -> tuple[list[int | str], type[BaseModel] | None]:
    """The address of a value as the recipe shows it, and the part of the recipe in which the value lies.

    Pydantic's addresses name the option of a union as well: `data.parquet.events` is the recipe's `data.events`.
    """
    place: list[int | str] = []
    part: type[BaseModel] | None = None
    here: Any = Recipe
    for step in steps:
        options = _options(here)
        if len(options) > 1:
            here = next((option for option in options if _is_part(option) and step in _tags(option)), None)
            continue
        (here,) = options
        place.append(step)
        part = here if _is_part(here) else None
        if part is not None:
            field = part.model_fields.get(str(step))
            here = field.annotation if field is not None else None
        else:  # an entry of a tuple or of a dict
            inner = get_args(here) or (None,)
            here = inner[-1] if get_origin(here) is dict else inner[0]
    return place, part


def _options(annotation: Any) -> list[Any]:
    """What an annotation allows, None left out."""
    if get_origin(annotation) is Annotated:
        return _options(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [option for option in get_args(annotation) if option is not type(None)]
    return [annotation]


def _is_part(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _tags(part: type[BaseModel]) -> set[object]:
    """What pydantic may call a part of a union: the values that a field of it is fixed to."""
    return {value for field in part.model_fields.values() for value in get_args(field.annotation)} | {part.__name__}


def load_recipe(path: Path) -> Recipe:
    """Read and validate a recipe file.

    Raises:
        RecipeError: the file is missing, is no YAML, or says something that is not allowed.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise RecipeError(f"{path}: {error.strerror or error}") from None
    except RecursionError:
        raise RecipeError(f"{path}: nested too deeply") from None
    except (yaml.YAMLError, ValueError, LookupError, AttributeError) as error:
        # PyYAML's own errors; and Python's for a value that its tag does not allow: 2026-13-45, !!bool x
        raise RecipeError(f"{path}: not YAML: {error}") from None
    return parse_recipe(document, str(path), path.parent)


def recipe_schema() -> dict[str, Any]:
    """The JSON schema of a recipe, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Recipe.model_json_schema()}
