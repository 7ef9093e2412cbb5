"""The CUDA kernel compiles for every architecture it is meant for, within its budget of registers and without spills.

64 registers let 1024 threads share a multiprocessor's 64 Ki registers; the eight-row kernels may use twice as many.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "kernels" / "cuda" / "sparse_gemv.cu"
ARCHITECTURES = ("80", "86", "89", "90")
_ENTRY = re.compile(r"Compiling entry function '(?P<name>\w+)' for 'sm_(?P<arch>\d+)'")
_SPILL = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers.* (\d+) bytes smem")


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc")
def test_registers_and_spills(tmp_path: Path) -> None:
    targets = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in ARCHITECTURES]
    command = ["nvcc", "-std=c++17", "-O3", "--threads", "2", *targets, "-Xptxas", "-v", "-Werror", "all-warnings"]
    command += ["-shared", "-Xcompiler", "-fPIC", str(SOURCE), "-o", str(tmp_path / "libtriton_ads_cuda.so")]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr + built.stdout
    text = built.stderr + built.stdout
    entries = [(match["arch"], match["name"]) for match in _ENTRY.finditer(text)]
    spills = [tuple(map(int, numbers)) for numbers in _SPILL.findall(text)]
    used = [tuple(map(int, numbers)) for numbers in _USED.findall(text)]
    # Three patterns, three batch sizes.
    assert len(entries) == len(spills) == len(used) == 9 * len(ARCHITECTURES)
    assert {arch for arch, _ in entries} == set(ARCHITECTURES)
    for (arch, name), spill, (registers, shared) in zip(entries, spills, used, strict=True):
        batch = int(re.search(r"ELi(\d+)E", name)[1])  # type: ignore[index]
        assert spill == (0, 0, 0), f"sm_{arch} {name} spills {spill}"
        assert registers <= (64 if batch < 8 else 128), f"sm_{arch} {name} uses {registers} registers"
        assert shared <= 48 * 1024
