"""What a stage depends on, as digests by name. Two runs with the same digests would write the same thing.

recipe FIELD             a part of the recipe
FILE                     a file that an earlier stage wrote
triton_ads/....py        a source file of ours that the stage runs, found by following imports
FILE.py                  the source file of a model that is not ours
PACKAGE                  the version of an installed package
"""

import ast
import hashlib
import importlib.metadata
import json
import os
import platform
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import triton_ads
from triton_ads.manifest import file_digest
from triton_ads.recipe import Recipe

Digests = dict[str, str]

_PACKAGE = Path(triton_ads.__file__).parent


def recipe_inputs(recipe: Recipe, fields: Iterable[str]) -> Digests:
    """Parts of a recipe, each a field or a dotted path such as `tiers.high`."""
    document = recipe.model_dump(mode="json")
    found = {}
    for field in fields:
        value = document
        for key in field.split("."):
            value = value[key]
        found[f"recipe {field}"] = hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
    return found


def path_digests(roots: Iterable[Path], base: Path, ignore: str = "") -> Digests:
    """Every file below `roots` by its path relative to `base`; of a symbolic link, what it points to.

    A root that does not exist has no files. Files named `ignore` are left out.
    """
    return {
        os.path.relpath(path, base): f"-> {path.readlink()}" if path.is_symlink() else file_digest(path)
        for root in roots
        for path in sorted(_files(root))
        if path.name != ignore
    }


def _files(root: Path) -> Iterator[Path]:
    if root.is_symlink() or root.is_file():
        yield root
        return
    for folder, folders, files in os.walk(root):
        links = [name for name in folders if (Path(folder) / name).is_symlink()]
        yield from (Path(folder) / name for name in [*links, *files])


def package_inputs(packages: Iterable[str]) -> Digests:
    """Versions of installed packages, and of Python."""
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {"python": platform.python_version(), **versions}


def source_inputs(module: str) -> Digests:
    """Every source file of ours that importing `module` may run, imports inside functions included."""
    seen: set[Path] = set()
    waiting = list(_module_files(module))
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += [file for name in _imports(path) for file in _module_files(name)]
    return {str(path.relative_to(_PACKAGE.parent)): code_digest(_parse(path)) for path in sorted(seen)}


def file_inputs(path: Path, base: Path) -> Digests:
    """A source file that is not ours, by its path relative to `base`, and what it imports of ours.

    Nothing where it does not exist or is no Python: whatever runs it says so.
    """
    try:
        code = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return {}
    imported = {file: digest for name in _imported(code) for file, digest in source_inputs(name).items()}
    return {os.path.relpath(path, base): code_digest(code), **imported}


def _module_files(name: str) -> Iterator[Path]:
    """Files that `import name` runs: the packages on the way and the module; nothing where it is no module."""
    folder = _PACKAGE
    yield folder / "__init__.py"
    for part in name.split(".")[1:]:
        folder = folder / part
        for path in (folder / "__init__.py", folder.with_suffix(".py")):
            if path.is_file():
                yield path


@cache
def _parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def code_digest(code: ast.Module) -> str:
    """sha256 of what a source file does: a new comment or docstring must not train a model again.

    >>> code_digest(ast.parse("def f(): return 1")) == code_digest(ast.parse('def f():\\n "One."\\n return 1  # 1'))
    True
    """
    for node in ast.walk(code):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [part for part in node.body if not _is_text(part)]
    return hashlib.sha256(ast.dump(code).encode()).hexdigest()


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _imports(path: Path) -> frozenset[str]:
    return _imported(_parse(path))


def _imported(code: ast.Module) -> frozenset[str]:
    """Our modules that a file names in import statements; `from a import b` names a and a.b, which may be a module."""
    names: set[str] = set()
    for node in ast.walk(code):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(name for name in names if name.split(".")[0] == _PACKAGE.name)
