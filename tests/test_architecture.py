"""docs/architecture.md says who is there, and who imports whom."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "triton_ads"
TEXT = (ROOT / "docs" / "architecture.md").read_text()
CONTRACTS = {"recipe", "manifest"}
PACKAGES = sorted(path.parent.name for path in LIBRARY.glob("*/__init__.py"))
ROWS = {row[0]: row[1] for row in re.findall(r"^\| `(\w+)/`[^|]*\|[^|]*\| ([^|]*) \|$", TEXT, re.MULTILINE)}


def imported(package: str) -> set[str]:
    """Our packages that the files of a package import anywhere, itself and the contracts left out."""
    names: set[str] = set()
    for path in (LIBRARY / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("triton_ads."):
                names.add(node.module.split(".")[1])
            elif isinstance(node, ast.Import):
                names |= {a.name.split(".")[1] for a in node.names if a.name.startswith("triton_ads.")}
    return names - CONTRACTS - {package}


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_imports(package: str) -> None:
    says = ROWS[package].split(", and ")[0]
    if says != "anything":
        assert imported(package) == (set() if says == "none" else set(says.split(", ")))


def test_every_folder_of_the_repository_is_described() -> None:
    folders = [path for path in ROOT.iterdir() if path.is_dir() and not path.name.startswith(".")]
    found = {folder.name for folder in folders if any(path.is_file() for path in folder.rglob("*"))}
    for name in found - {"triton_ads"}:
        assert f"`{name}/`" in TEXT, name
