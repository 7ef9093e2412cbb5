"""The package holds the library and nothing else, and packaging leaves build/ alone: it holds our recipes."""

import ast
import hashlib
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what packaging reads, so that a bad backend damages nothing here."""
    folder = tmp_path_factory.mktemp("source")
    for name in ("build", "kernels", "triton_ads"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE", ".gitignore"):
        shutil.copy(ROOT / name, folder / name)
    return folder


def pins(file: str) -> dict[str, str]:
    """Name -> the exact version of each line."""
    found = {}
    for line in (ROOT / file).read_text().splitlines():
        if line and not line.startswith(("#", "-r ")):
            pin = Requirement(line)
            assert [s.operator for s in pin.specifier] == ["=="], line
            found[canonicalize_name(pin.name)] = next(iter(pin.specifier)).version
    return found


def test_requirements_are_exact_and_fit_what_the_package_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]
    users = [*project["project"]["dependencies"], *extras["server"], *extras["build"]]
    users += project["build-system"]["requires"]
    pinned = pins("requirements.txt")
    for requirement in map(Requirement, users):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement
    pinned |= pins("requirements-test.txt")
    for requirement in map(Requirement, [*extras["test"], *extras["load"]]):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), requirement


def test_what_users_run_needs_nothing_that_only_tests_install() -> None:
    """Every import outside the benchmarks, those inside functions included, is of a package in requirements.txt."""
    pinned, distributions = pins("requirements.txt"), packages_distributions()
    for path in sorted((ROOT / "triton_ads").rglob("*.py")):
        if "bench" in path.relative_to(ROOT).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) and not node.level else []
            for top in {name.split(".")[0] for name in names} - sys.stdlib_module_names - {"triton_ads"}:
                owners = {canonicalize_name(owner) for owner in distributions.get(top, ())}
                assert owners & pinned.keys(), f"{path}: {top} of {owners or 'no package'}"


def pip(*arguments: object) -> None:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once: compiling the kernels takes half a minute. Building leaves the source as it was."""
    before = contents(source)
    assert "build/recipes/movielens.yaml" in before
    folder = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, source)
    assert contents(source) == before
    (built,) = folder.glob("*.whl")
    return built


def test_a_wheel_holds_the_library_alone(source: Path, wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names} == {"triton_ads", "triton_ads-0.1.0.dist-info"}
    library = {name for name in contents(source) if name.startswith("triton_ads/")}
    (compiled,) = {name for name in names if name.endswith(".so")}
    assert compiled.startswith("triton_ads/kernels/_native.")
    assert {name for name in names if name.startswith("triton_ads/")} == library | {compiled}


def test_an_installed_package_runs(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    pip("install", "--no-deps", "--target", target, wheel)
    # An editable install, where there is one, finds modules before the path does.
    program = """
import sys
sys.meta_path = [finder for finder in sys.meta_path if "ScikitBuild" not in type(finder).__name__]
import triton_ads.cli, triton_ads.kernels
print(triton_ads.cli.__file__, triton_ads.kernels.usable_paths())
triton_ads.cli.main(["inspect", "recipe", "build/recipes/movielens.yaml"])
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(target)},
        capture_output=True,
        text=True,
    )
    assert str(target) in done.stdout
    assert "'portable']" in done.stdout
    assert "No such file" in done.stderr  # there is no recipe where it runs: the package brings none
    done = subprocess.run(
        [target / "bin" / "triton-ads", "--help"], env={"PYTHONPATH": str(target)}, capture_output=True, text=True
    )
    assert done.stdout.startswith("usage: triton-ads")
