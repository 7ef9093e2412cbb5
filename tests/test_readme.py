"""What the README tells people to type works."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from triton_ads.cli import COMMANDS, parse
from triton_ads.recipe import parse_recipe
from triton_ads.server import TritonServer

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text()
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def block(language: str, having: str) -> str:
    """The fenced block of a language that holds a text."""
    found = [b for b in re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL) if having in b]
    assert len(found) == 1, f"{len(found)} blocks of {language} with {having!r}"
    return str(found[0])


def commands() -> list[str]:
    """`triton-ads ...` in backquotes, and at the start of a line of code, in any document."""
    text = "\n".join(path.read_text() for path in DOCUMENTS)
    code = "\n".join([*re.findall(r"```\w*\n(.*?)```", text, re.DOTALL), *re.findall(r"^ {4}.*", text, re.MULTILINE)])
    found = re.findall(r"`(triton-ads [^`\n]+)`", text) + re.findall(r"^ *(triton-ads [a-z].*)", code, re.MULTILINE)
    return sorted({command.strip() for command in found})


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_documents_parses(command: str) -> None:
    assert parse(shlex.split(command, comments=True)[1:]).command in COMMANDS


def test_every_command_is_in_the_readme() -> None:
    assert {command.split()[1] for command in commands()} == set(COMMANDS)


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_scripts_of_the_readme_exist_and_can_be_run() -> None:
    for name in set(re.findall(r"scripts/\w+\.sh", TEXT)):
        assert (ROOT / name).stat().st_mode & 0o111, name


def test_ci_runs_what_the_readme_says() -> None:
    assert (ROOT / ".ci" / "run").read_text().splitlines()[-1] == "exec scripts/test.sh"


def test_the_first_recipe_is_a_recipe() -> None:
    assert parse_recipe(yaml.safe_load(block("yaml", "name: first"))).name == "first"


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_as_printed_gets_a_ranking(server: TritonServer) -> None:
    """As printed but for the port, which is any free one here."""
    script = block("bash", "curl").replace("127.0.0.1:8000", server.http_url)
    done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], capture_output=True, text=True, check=True)
    answer = {output["name"]: output["data"] for output in json.loads(done.stdout)["outputs"]}
    assert sorted(answer["ranked_ids"]) == [50, 100, 181, 258, 294]
    assert len(answer["scores"]) == 5 * 2
    assert answer["tier"][0] in ("standard", "high")


def test_python_as_printed_gets_a_ranking(server: TritonServer) -> None:
    program = block("python", "RankClient").replace("127.0.0.1:8001", server.grpc_url)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = done.stdout.splitlines()
    assert lines[0].split()[0] in ("standard", "high")
    assert sorted(int(line.split()[0]) for line in lines[1:]) == [50, 100, 181, 258, 294]
