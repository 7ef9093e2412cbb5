import numpy as np
import pytest

from tests.support.tiny_release import seal, tiny_recipe, write_tiny_release
from triton_ads.manifest import ManifestError
from triton_ads.serving.release import Release


@pytest.fixture
def folder(tmp_path):
    return write_tiny_release(tmp_path / "release")


def damage(path):
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_a_whole_release(folder):
    release = Release.open(folder)
    assert release.tiers == ["standard", "high"]
    assert f"{release.number:012x}" == release.manifest.release
    assert release.graph("high", "item") == folder / "tiers/high/item.onnx"
    assert release.tables().table_rows == release.manifest.table_rows


@pytest.mark.parametrize("file", ["tiers/high/table.bin", "store/users/rows.npy", "vocabularies/item.npy"])
def test_the_router_notices_any_damage(folder, file):
    damage(folder / file)
    with pytest.raises(ManifestError, match=f"{file}: digest .* the manifest says"):
        Release.open(folder)


def test_the_others_notice_damage_of_what_they_load(folder):
    damage(folder / "tiers/high/table.bin")
    Release.open(folder, "vocabularies", "store/items")
    with pytest.raises(ManifestError, match=r"table.bin: digest"):
        Release.open(folder, "vocabularies", "tiers")


def test_a_part_that_the_manifest_does_not_know(folder):
    with pytest.raises(ManifestError, match="the manifest has no file engines"):
        Release.open(folder, "engines")


def test_a_release_that_is_not_there(tmp_path):
    with pytest.raises(ManifestError, match=r"manifest.json: No such file"):
        Release.open(tmp_path / "nothing")


def test_vocabularies_that_give_other_rows_than_the_tiers_know(folder):
    path = folder / "vocabularies" / "item.npy"
    np.save(path, np.load(path)[:-1])
    seal(folder, tiny_recipe())
    with pytest.raises(ManifestError, match="vocabularies"):
        Release.open(folder).tables()
