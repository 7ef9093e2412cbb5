"""A model class of one's own, `FILE.py:CLASS` in a recipe: found, checked, made."""

import inspect
import linecache
import sys
import traceback
import zlib
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import nn

from triton_ads.recipe import RecipeError


class OwnModelError(ValueError):
    """A model of one's own that cannot be used; the message names it, what was found and what is allowed."""


def load_class(name: str, folder: Path, where: str) -> type[nn.Module]:
    """The class `CLASS` of the file `FILE.py`, which is run.

    Args:
        name: `FILE.py:CLASS`, the file relative to `folder` or absolute.
        where: the place of `name` in the recipe, for messages.

    Raises:
        RecipeError: there is no such file or class.
        OwnModelError: the file cannot be run.
    """
    file_name, _, class_name = name.rpartition(":")
    path = folder / file_name
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise RecipeError(f"{where}: {path} cannot be read: {reason}") from None
    # Compiled here: Python's own cache of compiled files could take the old one for a file changed a moment ago.
    module = ModuleType(f"triton_ads_own_{path.stem}_{zlib.crc32(str(path.absolute()).encode()):08x}")
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # dataclasses and type hints look their module up
    linecache.checkcache(str(path))  # messages quote lines of the file
    try:
        exec(compile(text, str(path), "exec"), module.__dict__)
    except Exception as error:
        raise OwnModelError(f"{where}: {path} cannot be run: {told(error, str(path))}") from error
    found = vars(module).get(class_name)
    if not (isinstance(found, type) and issubclass(found, nn.Module)):
        classes = [n for n, c in vars(module).items() if _is_model_of(c, module)]
        raise RecipeError(f"{where}: {path} has no nn.Module {class_name!r}; it has: {', '.join(classes) or 'none'}")
    return found


def construct(cls: type[nn.Module], table_rows: dict[str, int], config: dict[str, Any], where: str) -> nn.Module:
    """`cls(table_rows, **config)`.

    Raises:
        RecipeError: the constructor does not take these arguments, or refuses them; `where` is the config's place.
    """
    parameters = list(inspect.signature(cls).parameters.values())
    free = any(p.kind is p.VAR_KEYWORD for p in parameters)
    settings = [p for p in parameters[1:] if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    names = [p.name for p in settings]
    for key in config:
        if key not in names and not free:
            raise RecipeError(f"{where}.{key}: not known, found {config[key]!r}; allowed: {', '.join(names) or 'none'}")
    missing = [p.name for p in settings if p.default is p.empty and p.name not in config]
    if missing:
        raise RecipeError(f"{where}: {cls.__name__} needs {', '.join(missing)} as well")
    try:
        return cls(dict(table_rows), **config)
    except Exception as error:
        raise RecipeError(f"{where}: {cls.__name__}(rows, **{config}): {told(error, inspect.getfile(cls))}") from error


def told(error: BaseException, path: str) -> str:
    """An error of a file in one line: its type, what it says, the line of the file."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    if isinstance(error, SyntaxError) and error.filename == path:
        lines = [error.lineno]
    place = f" ({Path(path).name}, line {lines[-1]})" if lines else ""
    return f"{type(error).__name__}: {error}{place}"


def _is_model_of(value: object, module: ModuleType) -> bool:
    return isinstance(value, type) and issubclass(value, nn.Module) and value.__module__ == module.__name__
