"""A version whose release is damaged is not served, and the log says which file."""

from pathlib import Path
from typing import Literal

import pytest

from tests.support.tiny_release import write_tiny_release
from triton_ads.export.repository import write_repository
from triton_ads.server import TritonServer
from triton_ads.server.launcher import ServerStartError


@pytest.mark.server
@pytest.mark.parametrize(
    ("layout", "file", "model"),
    [
        ("single", "store/users/history.npy", "rank"),
        ("ensemble", "store/users/history.npy", "router"),
        ("ensemble", "tiers/high/item.onnx", "item_scorer"),
    ],
)
def test_a_damaged_release(tmp_path: Path, layout: Literal["single", "ensemble"], file: str, model: str) -> None:
    release = write_tiny_release(tmp_path / "release")
    write_repository(release, tmp_path / "repository", layout)
    path = release / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(ServerStartError) as error, TritonServer(tmp_path / "repository"):
        pass
    assert model in str(error.value)
    assert f"{file}: digest" in str(error.value)
