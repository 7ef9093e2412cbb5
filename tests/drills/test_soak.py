"""Many small requests: once warm, the server needs no more memory and no more files."""

import time

import pytest

from triton_ads.server import TritonServer
from triton_ads.server.soak import soak

pytestmark = pytest.mark.server


def test_memory_and_open_files_stay_flat(repository, report, full):
    requests = 200_000 if full else 20_000
    with TritonServer(repository) as server:
        began = time.monotonic()
        seen = soak(server, requests, warm_up=3_000, max_candidates=20)
        seconds = time.monotonic() - began
    assert seen.leaks() == []
    assert 0.04 < seen.refused / seen.requests < 0.06  # one in twenty of the mix
    assert len(seen.files) >= 2
    worst = max(seen.growths, key=lambda growth: growth.bytes)
    files = max(growth.bytes for growth in seen.files)
    report(
        "soak",
        f"{seen.requests} requests in {seconds:.0f} s: at most {worst.bytes / 1e3:+.0f} kB over half of them "
        f"({worst.name}), {files:+.0f} files",
    )
