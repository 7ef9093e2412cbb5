"""`triton-ads serve` as a process of its own, ended in every way."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.echo_repository import write_echo
from tests.support.tiny_release import tiny_recipe, write_tiny_release
from triton_ads.cli import main
from triton_ads.client import RankClient
from triton_ads.export.repository import write_repository
from triton_ads.recipe import parse_recipe
from triton_ads.server.processes import Process, read_process, read_stub, session_members, shared_regions

pytestmark = pytest.mark.server

ROOT = Path(__file__).resolve().parents[2]


class Served:
    """A running `triton-ads serve` on free ports, and what it printed."""

    def __init__(self, repository: Path, *options: str) -> None:
        command = [sys.executable, "-m", "triton_ads.cli", "serve", "--repository", str(repository), *options]
        command += [f"--{name}-port=0" for name in ("http", "grpc", "metrics", "health")]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
        self.lines: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(line.rstrip())
            if "Ctrl-C" in line:
                break
        self.guardian = self._child()

    def _child(self) -> int:
        """The guardian: the child that leads a session of its own."""
        for entry in Path("/proc").glob("[0-9]*"):
            process = read_process(int(entry.name))
            if process and process.parent == self.process.pid and process.session == process.pid:
                return process.pid
        raise AssertionError("\n".join(self.lines))

    def address(self, name: str) -> str:
        return next(line.split()[1] for line in self.lines if line.split()[:1] == [name])

    def living(self) -> list[Process]:
        return [process for process in session_members(self.guardian) if process.alive]

    def end(self, number: int, limit_s: float) -> tuple[int, str]:
        """Send a signal; the exit status and what was printed after the start."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=limit_s)
        return self.process.returncode, rest


@pytest.fixture
def serve():
    """Starts servers; what a failed test left running is ended."""
    started: list[Served] = []

    def start(*arguments) -> Served:
        started.append(Served(*arguments))
        return started[-1]

    yield start
    for served in started:
        served.process.kill()
        served.process.wait()


def prefix_of(served: Served) -> str:
    """What the server's regions of shared memory begin with: the launcher's pid is part of it."""
    return f"triton_ads_{served.process.pid}_"


def test_the_printed_commands_work_as_printed_and_ctrl_c_ends_it_with_0(serve, repository):
    served = serve(repository)
    printed = "\n".join(served.lines)
    assert [line for line in served.lines if "is ready" in line] == served.lines[:1]  # nothing of a missing GPU
    with RankClient(served.address("gRPC")) as client:
        assert client.rank([1000]).ids.tolist() == [1000]

    curl = next(line for line in served.lines if "curl" in line)
    answer = subprocess.run(curl, shell=True, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert '"ranked_ids"' in answer
    rank = next(line for line in served.lines if "triton-ads rank" in line).strip()
    rank = rank.replace("triton-ads", f"{sys.executable} -m triton_ads.cli", 1)
    table = subprocess.run(rank, shell=True, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert re.search(r"│ +10 │ +\d+ │ Ad \d+ ", table), printed

    status, rest = served.end(signal.SIGINT, 10)
    assert (status, rest) == (0, "stopped\n")
    assert session_members(served.guardian) == []
    assert shared_regions(prefix_of(served)) == {}


def test_sigterm_after_a_stub_was_killed_is_bounded_ends_with_0_and_leaves_nothing(serve, tmp_path):
    served = serve(write_echo(tmp_path / "repository", instances=2))
    stub = next(process for process in served.living() if read_stub(process))
    os.kill(stub.pid, signal.SIGKILL)
    status, rest = served.end(signal.SIGTERM, 12)
    assert (status, rest) == (0, "stopped\n")
    assert session_members(served.guardian) == []
    assert shared_regions(prefix_of(served)) == {}


def test_when_the_launcher_is_killed_the_guardian_cleans_up(serve, tmp_path):
    served = serve(write_echo(tmp_path / "repository", instances=2))
    assert len(served.living()) == 4  # guardian, server, two stubs
    served.end(signal.SIGKILL, 5)
    end = time.monotonic() + 10
    while served.living():
        assert time.monotonic() < end
        time.sleep(0.05)
    assert shared_regions(prefix_of(served)) == {}


def test_when_the_guardian_is_killed_too_the_processes_end(serve, tmp_path):
    served = serve(write_echo(tmp_path / "repository"))
    served.process.send_signal(signal.SIGSTOP)  # a launcher that can do nothing
    os.kill(served.guardian, signal.SIGKILL)
    end = time.monotonic() + 10
    while served.living():
        assert time.monotonic() < end
        time.sleep(0.05)
    served.process.send_signal(signal.SIGCONT)
    # It notices, and starts a new server.
    with pytest.raises(subprocess.TimeoutExpired):
        served.process.wait(2)
    assert served.end(signal.SIGTERM, 12)[0] == 0
    assert shared_regions(prefix_of(served)) == {}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_the_start_ends_it_with_0(tmp_path, number):
    repository = write_echo(tmp_path / "repository", initialize="import time; time.sleep(30)")
    command = [sys.executable, "-m", "triton_ads.cli", "serve", "--repository", str(repository)]
    command += [f"--{name}-port=0" for name in ("http", "grpc", "metrics", "health")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        log = tmp_path / "server" / "0" / "triton.log"
        while not (log.exists() and "loading: echo" in log.read_text()):
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(10) == 0
        assert process.stdout.read() == "stopped\n"
    assert shared_regions(f"triton_ads_{process.pid}_") == {}


def test_what_keeps_it_from_starting_is_said_in_one_line(tmp_path):
    def refused(*arguments):
        command = [sys.executable, "-m", "triton_ads.cli", "serve", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
        assert (done.returncode, done.stdout) == (1, "")
        return done.stderr

    assert refused() == "triton-ads serve: model repository var/repository: no such folder\n"
    write_echo(tmp_path / "var" / "repository")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        message = refused(f"--http-port={port}", "--grpc-port=0", "--metrics-port=0", "--health-port=0")
    holder = f"{Path('/proc/self/comm').read_text().strip()} (pid {os.getpid()})"
    assert message == f"triton-ads serve: port {port}, wanted for HTTP, is in use by {holder}\n"


@pytest.mark.parametrize("name", ["http", "grpc", "metrics", "health"])
@pytest.mark.parametrize("port", ["70000", "-1", "65536", "http"])
def test_a_port_that_is_none_names_the_option(capsys, name, port):
    with pytest.raises(SystemExit) as raised:
        main(["serve", f"--{name}-port={port}"])
    assert raised.value.code == 2
    message = f"argument --{name}-port: '{port}' found, a whole number from 0 to 65535 allowed"
    assert message in capsys.readouterr().err


def test_verbose_shows_all_of_tritons_log(serve, tmp_path):
    served = serve(
        write_echo(tmp_path / "repository", initialize='print("hello from the model", flush=True)'), "--verbose"
    )
    printed = "\n".join(served.lines)
    assert "Started GRPCInferenceService" in printed
    assert "hello from the model" in printed
    assert served.end(signal.SIGTERM, 12)[0] == 0


def test_recipes_that_can_be_loaded_are_served_without_one_that_cannot(serve, tmp_path):
    for name in ("fine", "broken"):
        document = tiny_recipe(prefix=name).model_dump(mode="json")
        release = write_tiny_release(tmp_path / name, parse_recipe({**document, "name": name}))
        write_repository(release, tmp_path / "repository")
    (tmp_path / "broken" / "tiers" / "high" / "item.onnx").unlink()
    served = serve(tmp_path / "repository", "--not-strict")
    printed = "\n".join(served.lines)
    assert re.search(r"^not served: broken_rank: .*item\.onnx", printed, re.MULTILINE), printed
    assert "/v2/models/fine_rank/infer" in printed
    assert "broken_rank/infer" not in printed
    rank = next(line for line in served.lines if "triton-ads rank" in line).strip()
    rank = rank.replace("triton-ads", f"{sys.executable} -m triton_ads.cli", 1)
    done = subprocess.run(rank, shell=True, capture_output=True, text=True, check=False, cwd=ROOT)
    assert "Ad 10" in done.stdout, done.stderr
    assert served.end(signal.SIGTERM, 12)[0] == 0
