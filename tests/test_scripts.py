"""scripts/setup.sh: what it refuses, and that it has nothing to do when nothing has changed."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = [*sorted((ROOT / "scripts").glob("*.sh")), ROOT / ".ci" / "run"]


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """What setup.sh reads, in another place."""
    (tmp_path / "scripts").mkdir()
    for name in ("scripts/setup.sh", "requirements.txt", "requirements-test.txt", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels" / "one.cpp").write_text("int one;")
    return tmp_path


def setup(clone: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [clone / "scripts" / "setup.sh", *arguments]
    return subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_bash_that_stops_at_the_first_error(script: Path) -> None:
    text = script.read_text()
    assert text.startswith("#!/usr/bin/env bash\n")
    assert "\nset -euo pipefail\n" in text
    assert script.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", script], check=True)


def test_an_interpreter_that_is_not_there(clone: Path) -> None:
    done = setup(clone, PYTHON="python2.7-nowhere")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("setup: Python 3.11 or 3.12 is needed; tried python2.7-nowhere.")
    assert not (clone / ".venv").exists()


def test_an_interpreter_of_another_version(clone: Path) -> None:
    other = clone / "python3.8"
    other.write_text("#!/bin/sh\nexit 1\n")  # what the question for the version ends with
    other.chmod(0o755)
    assert setup(clone, PYTHON=str(other)).returncode == 1


@pytest.mark.parametrize(
    ("program", "answer", "message"),
    [
        (
            "getconf",
            "echo glibc 2.31",
            "setup: glibc 2.35 or later is needed (Ubuntu 22.04, Debian 12), this system has glibc 2.31",
        ),
        ("getconf", "exit 1", "setup: glibc 2.35 or later is needed, this system has another C library"),
        (
            "uname",
            "echo aarch64",
            "setup: the Triton server of nvidia-pytriton runs on Linux x86_64, this is aarch64 aarch64",
        ),
    ],
)
def test_a_platform_without_the_server(clone: Path, program: str, answer: str, message: str) -> None:
    tools = clone / "tools"
    tools.mkdir()
    (tools / program).write_text(f"#!/bin/sh\n{answer}\n")
    (tools / program).chmod(0o755)
    done = setup(clone, PATH=f"{tools}:{os.environ['PATH']}")
    assert (done.returncode, done.stderr.strip()) == (1, message)


@pytest.mark.parametrize(
    ("version", "passes"), [("2.35", True), ("2.36", True), ("2.100", True), ("3.0", True), ("2.4", False)]
)
def test_versions_of_glibc_are_numbers(clone: Path, version: str, passes: bool) -> None:
    tools = clone / "tools"
    tools.mkdir()
    (tools / "getconf").write_text(f"#!/bin/sh\necho glibc {version}\n")
    (tools / "getconf").chmod(0o755)
    done = setup(clone, PATH=f"{tools}:{os.environ['PATH']}", PYTHON="nowhere")  # the next thing that is refused
    assert ("Python 3.11 or 3.12 is needed" in done.stderr) == passes


@pytest.mark.parametrize("changed", ["requirements.txt", "pyproject.toml", "kernels/one.cpp"])
def test_a_change_of_what_is_installed_is_noticed(clone: Path, changed: str) -> None:
    """Up to date means no question about the platform or the interpreter: PYTHON is looked at only when needed."""
    program = """
        cd $0; pwd; echo nowhere
        sha256sum requirements.txt requirements.txt pyproject.toml
        find kernels -type f -exec sha256sum {} + | sort
    """
    stamp = subprocess.run(["bash", "-c", program, clone], capture_output=True, text=True, check=True).stdout
    (clone / ".venv").mkdir()
    (clone / ".venv" / "installed-requirements.txt").write_text(stamp)
    assert setup(clone, PYTHON="nowhere").returncode == 0
    with (clone / changed).open("a") as file:
        file.write("\n")
    assert setup(clone, PYTHON="nowhere").returncode == 1
