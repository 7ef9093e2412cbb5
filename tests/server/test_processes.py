import dataclasses
import os
import subprocess
import time

from triton_ads.server.processes import (
    SHARED_MEMORY,
    anonymous_bytes,
    kill_process,
    read_process,
    read_stub,
    remove_regions,
    session_members,
    shared_regions,
)


def test_a_session_is_found_whole_with_its_zombies():
    # The shell starts two sleepers; the first is killed and, as the shell does not look, stays a zombie.
    script = "sleep 60 & echo $!; sleep 60 & echo $!; exec sleep 60"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True) as leader:
        assert leader.stdout is not None
        first, second = int(leader.stdout.readline()), int(leader.stdout.readline())
        kill_process(read_process(first))
        while read_process(first).alive:
            time.sleep(0.01)
        members = {p.pid: p for p in session_members(leader.pid)}
        assert set(members) == {leader.pid, first, second}
        assert [members[pid].alive for pid in (leader.pid, first, second)] == [True, False, True]
        assert members[second].parent == leader.pid
        for process in members.values():
            kill_process(process)
    assert read_process(leader.pid) is None


def test_a_name_with_spaces_and_parentheses_is_read(tmp_path):
    odd = tmp_path / "a) R (b c"
    odd.symlink_to("/bin/sleep")
    with subprocess.Popen([odd, "60"]) as child:
        process = read_process(child.pid)
        assert (process.parent, process.session) == (os.getpid(), os.getsid(0))
        child.kill()


def test_a_pid_that_went_to_another_process_is_not_killed():
    with subprocess.Popen(["sleep", "60"]) as child:
        process = read_process(child.pid)
        kill_process(dataclasses.replace(process, started=process.started - 1))
        time.sleep(0.05)
        assert child.poll() is None
        kill_process(process)
        assert child.wait() == -9
    kill_process(process)  # gone: nothing happens


def test_a_stub_is_read_from_its_command_line(tmp_path):
    source = tmp_path / "router" / "1" / "model.py"
    source.parent.mkdir(parents=True)
    source.write_text("sleep 60\n")
    with subprocess.Popen(
        ["bash", "-c", f"exec -a a/triton_python_backend_stub sh {source} region_7 1048576"]
    ) as child:
        while (stub := read_stub(read_process(child.pid))) is None:
            time.sleep(0.01)
        assert (stub.pid, stub.model, stub.source, stub.region) == (child.pid, "router", source, "region_7")
        child.kill()
    with subprocess.Popen(["sleep", "60"]) as child:
        assert read_stub(read_process(child.pid)) is None
        child.kill()


def test_only_regions_of_the_prefix_are_removed():
    prefix = f"triton_ads_test_{os.getpid()}_"
    for name in (prefix + "a", prefix + "b", "x" + prefix):
        (SHARED_MEMORY / name).write_bytes(b"x" * 5000)
    try:
        assert shared_regions(prefix) == {prefix + "a": 8192, prefix + "b": 8192}
        assert remove_regions(prefix) == [prefix + "a", prefix + "b"]
        assert (SHARED_MEMORY / ("x" + prefix)).exists()
    finally:
        (SHARED_MEMORY / ("x" + prefix)).unlink()


def test_allocated_memory_grows_with_what_is_held():
    before = anonymous_bytes(os.getpid())
    held = bytearray(b"x") * 50_000_000
    assert 45e6 < anonymous_bytes(os.getpid()) - before < 80e6
    del held
    assert anonymous_bytes(2**22 + 1) == 0
