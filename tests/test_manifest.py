"""Manifests: what the server refuses to serve."""

import json
from pathlib import Path

import pytest

from tests.support.tiny_release import write_tiny_release
from triton_ads.manifest import MANIFEST_FILE, Manifest, ManifestError, release_header, release_id


@pytest.fixture
def release(tmp_path: Path) -> Path:
    return write_tiny_release(tmp_path / "release")


def change(release: Path, fields: dict[str, object]) -> None:
    path = release / MANIFEST_FILE
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_what_was_saved_is_loaded(release: Path, tmp_path: Path) -> None:
    manifest = Manifest.load(release)
    manifest.save(tmp_path)
    assert Manifest.load(tmp_path, verify_files=False) == manifest


def test_a_changed_file_is_refused_by_name(release: Path) -> None:
    with (release / "tiers" / "standard" / "item.onnx").open("ab") as file:
        file.write(b"x")
    with pytest.raises(ManifestError, match=r"item\.onnx: digest [0-9a-f]{12}, the manifest says"):
        Manifest.load(release)


def test_a_missing_file_is_refused_by_name(release: Path) -> None:
    (release / "store" / "items" / "ids.npy").unlink()
    with pytest.raises(ManifestError, match=r"ids\.npy: No such file"):
        Manifest.load(release)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"manifest_version": 2}, "manifest_version"),
        ({"wire_version": 7}, "wire_version"),
        ({"recipe_digest": "0" * 64}, "recipe_digest 000000000000 does not match the recipe"),
        ({"tiers": {}}, r"tiers \[\] do not match the recipe's"),
        ({"release": "0" * 12}, "release 000000000000 does not match the digests of its files"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_parts_that_do_not_belong_together(release: Path, fields: dict[str, object], message: str) -> None:
    change(release, fields)
    with pytest.raises(ManifestError, match=message):
        Manifest.load(release, verify_files=False)


@pytest.mark.parametrize("text", ["", "{", "[]", "\x00\x01"])
def test_a_manifest_that_is_none(release: Path, text: str) -> None:
    (release / MANIFEST_FILE).write_text(text)
    with pytest.raises(ManifestError, match=MANIFEST_FILE):
        Manifest.load(release)


def test_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="No such file"):
        Manifest.load(tmp_path)


def test_the_id_depends_on_recipe_and_files_not_on_their_order() -> None:
    assert release_id("r", {"a": "1", "b": "2"}) == release_id("r", {"b": "2", "a": "1"})
    assert release_id("r", {"a": "1"}) != release_id("r", {"a": "2"})
    assert release_id("r", {"a": "1"}) != release_id("s", {"a": "1"})


def test_the_header_is_exact_in_float32() -> None:
    assert release_header("fffffe000001") == (16777214.0, 1.0)
