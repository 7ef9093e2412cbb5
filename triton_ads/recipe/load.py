"""From a file to a recipe, or to an error that a person can act on."""

from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from triton_ads.recipe.base import RecipeError
from triton_ads.recipe.recipe import Recipe


def parse_recipe(document: object, source: str = "recipe") -> Recipe:
    """Validate a decoded YAML document.

    Raises:
        RecipeError: naming every wrong field, the value found and what is allowed.
    """
    try:
        return Recipe.model_validate(document)
    except ValidationError as error:
        lines = [_explain(e) for e in error.errors(include_url=False)]
        raise RecipeError(f"{source}: " + "\n".join(lines)) from None
    except RecursionError:
        raise RecipeError(f"{source}: nested too deeply") from None


def _explain(error: Any) -> str:
    where = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in error["loc"]).lstrip(".")
    message, found = error["msg"].removeprefix("Value error, "), error.get("input")
    if error["type"] == "extra_forbidden":
        return f"{where}: no such field; allowed: {', '.join(_fields_beside(error['loc']))}"
    if error["type"] == "missing":
        return f"{where}: this field is required"
    shown = "" if isinstance(found, dict | BaseModel) or found is None else f", found {found!r}"
    return f"{where}: {message}{shown}" if where else message


def _fields_beside(place: tuple[int | str, ...]) -> list[str]:
    """The fields of the part of a recipe in which `place`, the address of a value, lies."""
    part: Any = Recipe
    for step in place[:-1]:
        if _is_part(part):
            annotation = part.model_fields[str(step)].annotation
            part = next(
                (a for a in get_args(annotation) if _is_part(a) and type(None) in get_args(annotation)), annotation
            )
        else:  # an entry of a tuple or of a dict
            part = next(a for a in get_args(part) if _is_part(a))
    return sorted(part.model_fields)


def _is_part(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


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
    return parse_recipe(document, str(path))


def recipe_schema() -> dict[str, Any]:
    """The JSON schema of a recipe, for editors."""
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **Recipe.model_json_schema()}
