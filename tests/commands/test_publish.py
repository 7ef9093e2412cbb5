"""What `publish` and `rollback` refuse before they ask a server; the rest is in tests/drills/test_publish.py."""

from pathlib import Path

import pytest

from tests.support.next_release import write_releases
from tests.support.tiny_release import tiny_recipe
from triton_ads.cli import main
from triton_ads.export.repository import write_repository

TINY = Path(__file__).parents[1] / "recipes" / "tiny.yaml"


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(arguments) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error.removeprefix(f"triton-ads {arguments[0]}: ").strip()


def test_before_any_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    var = str(tmp_path / "var")
    made = "make one with: triton-ads build"
    assert refused(capsys, "publish", "--recipe", str(TINY), "--var", var) == (
        f"{var}: no release of tiny has been built; {made} --recipe {TINY}"
    )
    nothing = f"{var}/repository: no model repository with a release; {made}"
    assert refused(capsys, "publish", "var/releases/nope", "--var", var) == nothing
    assert refused(capsys, "rollback", "--var", var) == nothing


def test_what_is_not_there_names_what_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = write_releases(Path("var/releases"), tiny_recipe(), 2)
    write_repository(first, Path("var/repository"))
    assert refused(capsys, "publish", "var/releases/nope") == (
        f"var/releases/nope: no such release; there are: {', '.join(sorted([str(first), str(second)]))}"
    )
    assert refused(capsys, "rollback") == "var/repository: nothing was published before what rank serves"
    assert refused(capsys, "rollback", "--recipe", "x") == "var/repository: no recipe 'x' found; allowed: tiny"
    mine = tiny_recipe(prefix="films").model_copy(update={"name": "films"})
    write_repository(write_releases(Path("var/releases"), mine, 1)[0], Path("var/repository"))
    assert refused(capsys, "rollback") == "var/repository: name one with --recipe NAME: films, tiny"
