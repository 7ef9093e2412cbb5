"""The bit arithmetic of the CUDA kernel, compiled for the host, against the packed matrix: exact integers."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from triton_ads.compression.packing import pack
from triton_ads.compression.patterns import SCALE_BYTES, Pattern
from triton_ads.compression.quantised import QuantisedMatrix, largest_of_four

GROUP = 128


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++")
    program = tmp_path_factory.mktemp("decode") / "decode"
    source = Path(__file__).with_name("cuda_decode.cpp")
    subprocess.run([compiler, "-std=c++17", "-O1", "-Wall", "-Werror", str(source), "-o", str(program)], check=True)
    return program


@pytest.mark.parametrize("pattern", list(Pattern))
@pytest.mark.parametrize("seed", range(3))
def test_lane_sums_are_exact(decoder: Path, pattern: Pattern, seed: int) -> None:
    rng = np.random.default_rng(seed)
    keep_NK = largest_of_four(rng.random((32, GROUP)), pattern)
    codes_NK = (rng.integers(-8, 8, (32, GROUP)) * keep_NK).astype(np.int8)
    scales_NB = np.ones((32, GROUP // 32), np.float16)
    packed = pack(QuantisedMatrix(pattern, codes_NK, scales_NB, np.full(32, GROUP, np.uint16)))
    x_K = rng.integers(-1000, 1000, GROUP)
    numbers = [list(Pattern).index(pattern), GROUP // pattern.step_columns]
    numbers += packed.tiles[:-SCALE_BYTES].tolist() + x_K.tolist()
    told = " ".join(map(str, numbers))
    printed = subprocess.run([str(decoder)], input=told, capture_output=True, text=True, check=True).stdout
    assert list(map(int, printed.split())) == (codes_NK.astype(np.int64) @ x_K).tolist()
