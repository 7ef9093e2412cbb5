"""Start and stop one tritonserver: ports first, the backend laid out, models awaited, reasons given.

The server process is a child of its guardian (guardian.py), which cleans up however this process ends.
"""

import contextlib
import logging
import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from triton_ads.export.served import PublishRunningError, ServedMark, publishing
from triton_ads.server.control import KEY_HEADER, RESTRICTED, TritonControl
from triton_ads.server.install import ServerInstall
from triton_ads.server.log import LogReader, last_lines
from triton_ads.server.ports import HOST, choose_ports
from triton_ads.server.processes import (
    Process,
    Stub,
    kill_process,
    read_stub,
    remove_regions,
    session_members,
)
from triton_ads.server.shared_memory import RegionLock, sweep_regions
from triton_ads.server.versions import compile_models, settle

_log = logging.getLogger("triton_ads.server")
_PERIOD_S = 0.05
_PORT_RACES = 3  # another process may take a free port between the choice and the server's bind
LOG_NAME = "triton.log"
_PURPOSES = ("gRPC", "HTTP", "metrics")


class ServerStartError(RuntimeError):
    """The server did not become ready; the message says which model failed and why."""


@dataclass(frozen=True)
class LaunchOptions:
    """What a server is started with."""

    repository: Path
    folder: Path  # the laid out backend and the log go here
    temporary: bool  # whether the folder goes with this process
    ports: Mapping[str, int]  # by purpose: gRPC, HTTP, metrics; 0: any free one
    strict: bool = True  # a model that cannot be loaded is an error; else the others are served
    start_timeout_s: float = 120.0
    stop_timeout_s: float = 5.0  # between SIGTERM and SIGKILL
    arguments: tuple[str, ...] = ()  # further options of tritonserver
    address: str = HOST  # that it listens on; 0.0.0.0: all of this machine's, HOST among them
    control_key: str = ""  # what RESTRICTED wants to see; empty: nothing

    @property
    def control_key_file(self) -> Path:
        """Where a server that wants a key keeps it."""
        return self.folder / "control.key"


@dataclass
class ServerProcess:
    """One tritonserver with its guardian. One thread at a time may start and stop it."""

    options: LaunchOptions
    install: ServerInstall
    ports: dict[str, int] = field(default_factory=dict)
    models: tuple[str, ...] = ()  # ready when the server started
    failures: dict[str, str] = field(default_factory=dict)  # models that could not be loaded, and why

    def __post_init__(self) -> None:
        # Unique, so that cleaning up can never take another server's memory.
        self.shm_prefix = f"triton_ads_{os.getpid()}_{secrets.token_hex(4)}_"
        self.log_path = self.options.folder / LOG_NAME
        self._guardian: subprocess.Popen[bytes] | None = None
        self._served = ServedMark(self.options.repository)
        self._lock = RegionLock(self.shm_prefix)
        self._reader = LogReader(self.log_path)
        self._opened: set[str] = set()
        self._cancelled = threading.Event()

    @property
    def control(self) -> TritonControl:
        return TritonControl(f"{HOST}:{self.ports['HTTP']}", self.options.control_key)

    @property
    def running(self) -> bool:
        return self._guardian is not None and self._guardian.poll() is None

    @property
    def returncode(self) -> int | None:
        """The exit status of a server that ended by itself; None while it runs, and where none was started."""
        return None if self._guardian is None else self._guardian.poll()

    def start(self) -> None:
        """Start the server and wait until its models are ready.

        Raises:
            PortTakenError: before anything is started.
            ServerStartError: the server died, a model failed (strict), or the time is over; nothing is left running.
        """
        _check_repository(self.options.repository)
        self._served.hold()
        self._prepare()
        for attempt in range(1, _PORT_RACES + 1):
            self.ports = choose_ports({name: self.ports.get(name) or self.options.ports[name] for name in _PURPOSES})
            try:
                self._start_once()
                return
            except _PortRaceError as error:
                self.stop()
                self.ports = {}
                if attempt == _PORT_RACES or all(self.options.ports.values()):
                    raise ServerStartError(str(error)) from None
            except BaseException:
                self.stop(at_once=True)  # it has answered nobody yet
                raise

    def stop(self, *, at_once: bool = False) -> None:
        """Stop the server and leave nothing of it. Safe to call at any time.

        SIGTERM, then SIGKILL after the time allowed; `at_once`, for a server that is broken: SIGKILL.
        """
        if self._guardian is None:
            self._let_go()
            return
        if at_once:
            self.kill_server()
        guardian, self._guardian = self._guardian, None
        guardian.terminate()
        try:
            guardian.wait(self.options.stop_timeout_s + 10)
        except subprocess.TimeoutExpired:
            _log.warning("the guardian of the server (pid %d) does not answer; killing its session", guardian.pid)
        for process in session_members(guardian.pid):  # for a guardian that was itself killed, or hangs
            kill_process(process)
        guardian.wait()
        remove_regions(self.shm_prefix)
        self._let_go()

    def _let_go(self) -> None:
        self._served.release()
        self._lock.release()

    def _prepare(self) -> None:
        """What earlier servers and publishers that were killed have left, and bytecode, before Triton looks."""
        for name in sweep_regions():
            _log.info("removed /dev/shm/%s, which a server that was killed had left", name)
        self._lock.hold()
        repository = self.options.repository
        try:
            with publishing(repository):
                for name in settle(repository):
                    _log.warning("removed %s, which a publish that did not end had left", repository / name)
        except (OSError, PublishRunningError):  # may not be written; or a publisher is at work, and will see to it
            pass
        compile_models(repository)

    def cancel(self) -> None:
        """From any thread: a `start` under way fails soon, and every later one."""
        self._cancelled.set()

    def kill_server(self) -> None:
        """SIGKILL to tritonserver; from any thread. Its guardian ends what it leaves."""
        server = self.server_pid()
        if server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(server, signal.SIGKILL)

    def members(self) -> list[Process]:
        """The server and its stubs, dead ones included, without the guardian."""
        guardian = self._guardian
        if guardian is None:
            return []
        return [process for process in session_members(guardian.pid) if process.pid != guardian.pid]

    def server_pid(self) -> int | None:
        """tritonserver itself: the guardian's first child."""
        guardian = self._guardian
        children = [p for p in self.members() if guardian is not None and p.parent == guardian.pid]
        return min(children, key=lambda p: p.started).pid if children else None

    def stubs(self) -> list[Stub]:
        """The living stubs of every model."""
        found = (read_stub(process) for process in self.members() if process.alive)
        return [stub for stub in found if stub is not None]

    def report_log(self) -> None:
        """Log what Triton has written since the last call: readiness, failures, warnings and errors that matter."""
        for record in self._reader.read():
            if record.opened:
                self._opened.add(record.opened)
            if record.loaded:
                _log.info("model %s is ready", record.loaded)
                self.failures.pop(record.loaded, None)
            elif record.failed:
                model, reason = record.failed
                self.failures[model] = reason
                _log.error("model %s cannot be loaded: %s", model, reason)
            elif record.matters:
                _log.log(logging.WARNING if record.level == "W" else logging.ERROR, "Triton: %s", record.text)
            elif record.text:
                _log.debug("Triton: %s", record.text)

    def _start_once(self) -> None:
        options = self.options
        self.failures.clear()
        self._opened.clear()
        backends = self.install.lay_out(options.folder)
        guardian = [sys.executable, "-m", "triton_ads.server.guardian"]
        guardian += ["--launcher", str(os.getpid()), "--shm-prefix", self.shm_prefix]
        guardian += ["--grace-s", str(options.stop_timeout_s)]
        guardian += ["--temporary", str(options.folder)] if options.temporary else []
        with self.log_path.open("ab") as log:
            self._guardian = subprocess.Popen(
                [*guardian, "--", *self._command(backends)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.install.environment(options.folder),
                start_new_session=True,
                pass_fds=self._lock.files,
            )
        self._await_models()

    def _command(self, backends: Path) -> list[str]:
        ports = self.ports
        return [
            str(self.install.binary),
            f"--model-repository={self.options.repository.resolve()}",
            f"--backend-directory={backends}",
            "--model-control-mode=explicit",
            "--load-model=*",
            # Failures are reported here, with their reasons, rather than by an exit.
            "--exit-on-error=false",
            # Completing a configuration costs a stub start for each model; ours are complete.
            "--disable-auto-complete-config",
            *(f"--{kind}-address={self.options.address}" for kind in ("http", "grpc", "metrics")),
            f"--http-port={ports['HTTP']}",
            f"--grpc-port={ports['gRPC']}",
            f"--metrics-port={ports['metrics']}",
            f"--backend-config=python,shm-region-prefix-name={self.shm_prefix}",
            f"--exit-timeout-secs={max(1, int(self.options.stop_timeout_s))}",
            *self._restrictions(),
            *self.install.arguments,
            *self.options.arguments,
        ]

    def _restrictions(self) -> list[str]:
        key = self.options.control_key
        kinds = ("http-restricted-api", "grpc-restricted-protocol") if key else ()
        return [f"--{kind}={RESTRICTED}:{KEY_HEADER}={key}" for kind in kinds]

    def _await_models(self) -> None:
        end = time.monotonic() + self.options.start_timeout_s
        # Triton opens its ports when every model was tried. Its own log is asked, not the port: another server might
        # answer there.
        while len(self._opened) < len(_PURPOSES):
            if time.monotonic() > end:
                raise ServerStartError(
                    f"the server was not ready after {self.options.start_timeout_s:g} s{self._log_tail()}"
                )
            self._pause()
        self._pause()  # it says "started" and only then finds the port of the metrics taken
        index = self.control.index()
        self.models = tuple(sorted({m.model for m in index if m.ready}))
        for model in index:
            if model.model not in self.models:
                self.failures.setdefault(model.model, model.reason or "no reason given")
        if self.failures and (self.options.strict or not self.models):
            reasons = "\n".join(f"  {model}: {reason}" for model, reason in sorted(self.failures.items()))
            raise ServerStartError(f"models that cannot be loaded:\n{reasons}\nlog: {self.log_path}")

    def _pause(self) -> None:
        if self._cancelled.wait(_PERIOD_S):
            raise ServerStartError("the server was stopped before it was ready")
        self.report_log()
        if self.returncode is not None:
            self._explain_death()

    def _explain_death(self) -> None:
        tail = self._log_tail()
        status = self.returncode
        if "already in use" in tail:
            raise _PortRaceError(f"the server could not open its ports {self.ports}{tail}")
        raise ServerStartError(f"the server ended with status {status} before it was ready{tail}")

    def _log_tail(self) -> str:
        lines = "".join(f"\n  {line}" for line in last_lines(self.log_path, 5))
        return f"; last lines of {self.log_path}:{lines}"


class _PortRaceError(Exception):
    """A port that was free when chosen was taken when the server came to open it."""


def _check_repository(repository: Path) -> None:
    """
    Raises:
        ServerStartError: no folder, or no model in it.
    """
    if not repository.is_dir():
        raise ServerStartError(f"model repository {repository}: no such folder")
    with contextlib.suppress(StopIteration):
        next(repository.glob("*/config.pbtxt"))
        return
    raise ServerStartError(f"model repository {repository}: no model in it (no */config.pbtxt)")
