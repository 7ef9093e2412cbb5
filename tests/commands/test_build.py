"""What users of `triton-ads build` see of errors: one line on stderr, exit status 1, no traceback."""

from pathlib import Path

import pytest
import yaml

from tests.commands.test_trie import write_ads
from triton_ads.cli import main

TINY = Path(__file__).parents[1] / "recipes" / "tiny.yaml"


def test_a_wrong_recipe_names_the_field_the_value_and_what_is_allowed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(TINY.read_text().replace("batch_size: 256", "batch_size: 1"))
    assert main(["build", "--recipe", str(recipe), "--var", str(tmp_path / "var")]) == 1
    assert capsys.readouterr().err == (
        f"triton-ads build: {recipe}: training.batch_size: Input should be greater than or equal to 2, found 1\n"
    )
    assert not (tmp_path / "var").exists()


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (("labels",), ["cvr", "clicked"], "{folder}/events.parquet: column 'clicked' found 0 times, once needed"),
        (("data", "validation_fraction"), 0.05, "label cvr: all 1 examples of the validation part are "),
        (("tiers", "standard", "config"), {"layers": "many"}, "tiers.standard.config.layers: "),
    ],
)
def test_what_a_stage_finds_wrong_names_the_file_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], field: tuple[str, ...], value: object, message: str
) -> None:
    document = yaml.safe_load(write_ads(tmp_path).read_text())
    del document["target"]
    document["data"] |= {"train_fraction": 0.5, "validation_fraction": 0.25}
    part = document
    for step in field[:-1]:
        part = part[step]
    part[field[-1]] = value
    recipe = tmp_path / "mine.yaml"
    recipe.write_text(yaml.safe_dump(document))
    assert main(["build", "--recipe", str(recipe), "--var", str(tmp_path / "var")]) == 1
    assert capsys.readouterr().err.startswith(f"triton-ads build: {recipe}: {message.format(folder=tmp_path)}")


def test_a_missing_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "--recipe", str(tmp_path / "none.yaml")]) == 1
    assert capsys.readouterr().err == f"triton-ads build: {tmp_path}/none.yaml: No such file or directory\n"


def test_an_unknown_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["build", "--recipe", str(TINY), "--var", str(tmp_path), "--only", "tests"]) == 1
    assert "stages: data, train, baselines, calibrate, export, release, repository" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "var").write_text("a file")
    assert main(["build", "--recipe", str(TINY), "--var", str(tmp_path / "var")]) == 1
    error = capsys.readouterr().err
    assert error.startswith("triton-ads build: ")
    assert error.count("\n") == 1


def test_an_error_of_ours_that_no_one_foresaw_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_args: object) -> int:
        raise KeyError("a mistake in the program")

    monkeypatch.setattr("triton_ads.commands.build.run", fail)
    with pytest.raises(KeyError):
        main(["build"])
