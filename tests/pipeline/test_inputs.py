"""Digests of what a stage depends on."""

import ast
from pathlib import Path

import pytest

from triton_ads.manifest import file_digest
from triton_ads.pipeline.inputs import code_digest, package_inputs, path_digests, recipe_inputs, source_inputs
from triton_ads.recipe import Recipe


def test_a_recipe_part_depends_on_its_own_field_alone(tiny: Recipe) -> None:
    louder = tiny.model_copy(update={"training": tiny.training.model_copy(update={"epochs": 7})})
    fields = ["training", "labels", "tiers.high", "serving.tile"]
    before, after = recipe_inputs(tiny, fields), recipe_inputs(louder, fields)
    assert list(before) == ["recipe training", "recipe labels", "recipe tiers.high", "recipe serving.tile"]
    assert [name for name in before if before[name] != after[name]] == ["recipe training"]


def test_files_have_their_content_and_links_their_target(tmp_path: Path) -> None:
    (tmp_path / "a" / "deep").mkdir(parents=True)
    (tmp_path / "a" / "deep" / "file").write_bytes(b"abc")
    (tmp_path / "a" / "stage.json").write_text("left out")
    (tmp_path / "a" / "link").symlink_to("deep", target_is_directory=True)
    found = path_digests([tmp_path / "a", tmp_path / "missing"], tmp_path, ignore="stage.json")
    # sha256 of "abc", FIPS 180-2 appendix B.1
    abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert found == {"a/deep/file": abc, "a/link": "-> deep"}
    assert path_digests([tmp_path / "a" / "link"], tmp_path) == {"a/link": "-> deep"}
    assert file_digest(tmp_path / "a" / "deep" / "file") == abc


def test_sources_follow_imports(tmp_path: Path) -> None:
    training = source_inputs("triton_ads.pipeline.stages.train")
    assert {
        "triton_ads/training/fit.py",  # imported by what the stage imports
        "triton_ads/models/hyformer.py",
        "triton_ads/models/__init__.py",
        "triton_ads/recipe/__init__.py",
        "triton_ads/pipeline/stages/train.py",
    } <= set(training)
    assert not [name for name in training if "/serving/" in name or "/export/" in name or "/server/" in name]
    assert "triton_ads/split/rules/linear.py" in source_inputs("triton_ads.pipeline.stages.export")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("x = 1", "x = 1  # one", True),
        ("def f():\n    return 1", '"""Module."""\ndef f():\n    "What f does."\n\n    return 1\n', True),
        ("class A:\n    x = 1", 'class A:\n    """A."""\n    x = (1)', True),
        ("x = 1", "x = 2", False),
        ("x = 'a'", "x = 'b'", False),
        ("f('a')", "f()", False),
    ],
)
def test_only_what_code_does_counts(one: str, other: str, same: bool) -> None:
    assert (code_digest(ast.parse(one)) == code_digest(ast.parse(other))) is same


def test_packages_have_their_versions() -> None:
    found = package_inputs(["numpy"])
    assert set(found) == {"python", "numpy"}
    assert found["numpy"].split(".")[0] == "1"
