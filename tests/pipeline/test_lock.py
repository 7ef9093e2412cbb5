"""Two builds at once."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from triton_ads.pipeline.lock import BuildRunningError, build_lock


def test_a_second_build_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    refused = pytest.raises(BuildRunningError, match=f"process {os.getpid()} builds here")
    with build_lock(tmp_path), refused, build_lock(tmp_path):
        pass
    with build_lock(tmp_path):  # and is not afterwards
        pass


def test_a_build_that_was_killed_holds_nothing(tmp_path: Path) -> None:
    program = (
        "import os, pathlib; from triton_ads.pipeline.lock import build_lock\n"
        f"with build_lock(pathlib.Path({str(tmp_path)!r})): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == -9
    with build_lock(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())
