import subprocess
import sys

import pytest

from triton_ads.export.served import PublishRunningError, ServedMark, is_served, publishing


def test_a_repository_is_served_for_as_long_as_any_server_says_so(tmp_path):
    assert not is_served(tmp_path)
    assert not is_served(tmp_path / "missing")
    first, second = ServedMark(tmp_path), ServedMark(tmp_path)
    first.hold()
    first.hold()
    second.hold()
    assert is_served(tmp_path)
    first.release()
    first.release()
    assert is_served(tmp_path)
    second.release()
    assert not is_served(tmp_path)


def test_the_mark_of_a_process_that_was_killed_is_gone(tmp_path):
    hold = "import sys; from pathlib import Path; from triton_ads.export.served import ServedMark\n"
    hold += "ServedMark(Path(sys.argv[1])).hold(); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert is_served(tmp_path)
        process.kill()
    assert not is_served(tmp_path)


def test_there_is_one_publisher_at_a_time(tmp_path):
    with (
        publishing(tmp_path),
        pytest.raises(PublishRunningError, match=r"process \d+ is publishing"),
        publishing(tmp_path),
    ):
        pass
    with publishing(tmp_path):
        pass
