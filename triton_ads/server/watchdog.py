"""The watchdog: notices what Triton does not, and repairs it.

Triton 2.51 does not see that a stub, the process that runs a model, has died: its readiness stays 200 while each of
the model's requests fails after a second. So the watchdog looks at the processes themselves, and asks a canary
question through the whole chain. What it finds is repaired by the smallest thing that helps:

    a dead stub                     load its model again (its other instances answer meanwhile)
      that fails, or did so often     restart the server
    the server is gone              restart the server
    the canary fails, no one died   restart the server, after a second failure in a row; but not while every model
                                    goes on executing batches: then it is only slow

Attempts are bounded: each failure in a row waits twice as long, then the watchdog gives up, says so in `status`, and
leaves it to whoever supervises this process.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from triton_ads.server.control import ControlError
from triton_ads.server.launcher import ServerProcess, ServerStartError
from triton_ads.server.ports import PortTakenError
from triton_ads.server.processes import SHARED_MEMORY, Stub, kill_process

_log = logging.getLogger("triton_ads.server")

_JOIN_S = 1.0
_CANARY = "canary failed: "

State = Literal["ready", "recovering", "gave up", "stopped"]


@dataclass(frozen=True)
class WatchdogLimits:
    """Periods and bounds, in seconds where not said otherwise."""

    period_s: float = 0.5  # between looks at the processes
    scan_period_s: float = 3.0  # between looks for new stubs; the known ones are looked at every period
    canary_period_s: float = 3.0
    canary_timeout_s: float = 3.0
    canary_failures: int = 2  # in a row, before a server whose processes all live is restarted
    load_timeout_s: float = 60.0
    drain_s: float = 2.0  # what a replaced stub gets to answer its last requests
    # Triton never lets go of an instance whose stub was killed (some MB of memory, a zombie): restart now and then.
    reloads: int = 5
    attempts: int = 5  # restarts in a row that fail before giving up
    backoff_s: float = 0.5  # before the second attempt; doubles with each


DEFAULT_LIMITS = WatchdogLimits()


@dataclass
class WatchdogCounts:
    """Events since the watchdog started."""

    dead_stubs: int = 0
    dead_servers: int = 0
    canaries: int = 0
    canary_failures: int = 0
    reloads: int = 0
    restarts: int = 0
    failed_recoveries: int = 0


@dataclass
class _Replaced:
    """Stubs of a model that was loaded again: they get no new requests, and Triton never ends them."""

    stubs: list[Stub]
    since: float


@dataclass
class Watchdog:
    """Watches one server from a thread of its own, between `start` and `stop`.

    `canary` asks the server a question and raises when the answer is not what it must be; its argument is the time
    allowed in seconds. None where the repository has no model that could be asked.
    """

    process: ServerProcess
    canary: Callable[[float], None] | None
    limits: WatchdogLimits = DEFAULT_LIMITS
    counts: WatchdogCounts = field(default_factory=WatchdogCounts)

    def __post_init__(self) -> None:
        self.state: State = "stopped"
        self.reason = ""
        self._known: dict[int, Stub] = {}
        self._suspects: set[int] = set()  # zombies seen once: perhaps only not yet collected by Triton
        self._replaced: list[_Replaced] = []
        self._reloads = 0  # since the server started
        self._failures_in_row = 0
        self._canary_failures_in_row = 0
        self._last_scan = self._last_canary = 0.0
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watchdog", daemon=True)

    def start(self) -> None:
        """Begin to watch a server that is ready."""
        self.state = "ready"
        self._scan()
        self._thread.start()

    def stop(self) -> None:
        """End watching, and a recovery under way. The server is left as it is, else."""
        self._stopping.set()
        self.process.cancel()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)
            if self._thread.is_alive() and self.state == "recovering":
                self.process.kill_server()  # it waits for a load: without the server there is nothing to wait for
            self._thread.join()
        self.state = "stopped"

    @property
    def live(self) -> bool:
        """False when nothing more will be done for the server: restart this process."""
        return self._thread.is_alive() and self.state != "gave up"

    @property
    def ready(self) -> bool:
        """True when every model answered when last looked at."""
        return self.live and self.state == "ready" and self._canary_failures_in_row == 0

    def status(self) -> dict[str, Any]:
        """What /status answers."""
        stubs: dict[str, list[int]] = {model: [] for model in self.process.models}
        for stub in list(self._known.values()):
            stubs.setdefault(stub.model, []).append(stub.pid)
        return {
            "state": self.state,
            "ready": self.ready,
            "reason": self.reason,
            "models": stubs,
            "failures": dict(self.process.failures),
            "counts": asdict(self.counts),
            "ports": dict(self.process.ports),
            "log": str(self.process.log_path),
        }

    def _run(self) -> None:
        while not self._stopping.wait(self.limits.period_s):
            try:
                self._look()
            except Exception:
                # A watchdog that dies of its own mistake would be worse than the mistake.
                _log.exception("watchdog: unexpected error")
            if self.state == "gave up":
                return

    def _look(self) -> None:
        self.process.report_log()
        self._end_replaced()
        if not self.process.running:
            status = self.process.returncode
            if status is not None:
                self.counts.dead_servers += 1
            self._recover("the server is not running" if status is None else f"the server died (status {status})")
            return
        dead = self._dead_stubs()
        if dead:
            self.counts.dead_stubs += len(dead)
            models = sorted({stub.model for stub in dead})
            pids = ", ".join(str(stub.pid) for stub in dead)
            self._recover(f"the process of {', '.join(models)} died (pid {pids})", models)
            return
        if self._suspects:
            return  # whether they are dead is known at the next look; a canary would only wait for them
        if time.monotonic() - self._last_canary >= self.limits.canary_period_s or self._canary_failures_in_row:
            before = self._executions()
            problem = self._ask_canary()
            if problem is not None and self._all_execute(before):
                _log.warning("watchdog: the server is slow, but every model goes on")
                self._canary_failures_in_row = 0
            elif problem is not None and self._canary_failures_in_row >= self.limits.canary_failures:
                self._recover(f"the server does not answer: {problem}")

    def _scan(self) -> None:
        replaced = {stub.pid for group in self._replaced for stub in group.stubs}
        self._known.update({stub.pid: stub for stub in self.process.stubs() if stub.pid not in replaced})
        self._last_scan = time.monotonic()

    def _dead_stubs(self) -> list[Stub]:
        """Stubs that died by themselves: zombies twice in a row. One that Triton ended is gone without a trace."""
        if time.monotonic() - self._last_scan >= self.limits.scan_period_s:
            self._scan()
        dead = []
        for stub in list(self._known.values()):
            now = stub.process()
            if now is None:
                del self._known[stub.pid]
            elif now.alive:
                continue
            elif stub.pid in self._suspects:
                dead.append(stub)
            else:
                self._suspects.add(stub.pid)
        self._suspects &= self._known.keys()
        return dead

    def _ask_canary(self) -> str | None:
        """None, or why the canary failed."""
        self._last_canary = time.monotonic()
        if self.canary is None:
            return None
        self.counts.canaries += 1
        try:
            self.canary(self.limits.canary_timeout_s)
        except Exception as error:
            self.counts.canary_failures += 1
            self._canary_failures_in_row += 1
            self.reason = f"{_CANARY}{error}"
            _log.warning("watchdog: %s%s", _CANARY, error)
            return str(error)
        self._canary_failures_in_row = 0
        if self.reason.startswith(_CANARY):
            self.reason = ""
        return None

    def _executions(self) -> dict[str, int]:
        """Batches executed by each model that has a process; empty where Triton does not say."""
        models = {stub.model for stub in self._known.values()}
        try:
            return {m: n for m, n in self.process.control.executions().items() if m in models}
        except ControlError:
            return {}

    def _all_execute(self, before: dict[str, int]) -> bool:
        """True when every model has executed a batch since: the canary waits in a queue that moves."""
        after = self._executions()
        return bool(before) and all(after.get(model, 0) > count for model, count in before.items())

    def _recover(self, problem: str, models: Sequence[str] = ()) -> None:
        """Load `models` again, or restart the server where that does not help or no model is to blame."""
        began = time.monotonic()
        self.state, self.reason = "recovering", problem
        _log.warning("watchdog: %s", problem)
        reload = bool(models) and self._reloads + len(models) <= self.limits.reloads
        if (reload and self._reload(models)) or self._restart():
            self.state, self.reason = "ready", f"recovered: {problem}"
            self._failures_in_row = self._canary_failures_in_row = 0
            self.process.report_log()
            _log.warning("watchdog: recovered in %.1f s", time.monotonic() - began)
            return
        if self._stopping.is_set():
            return
        self.counts.failed_recoveries += 1
        self._failures_in_row += 1
        if self._failures_in_row >= self.limits.attempts:
            self.state = "gave up"
            _log.error("watchdog: gave up after %d attempts: %s", self._failures_in_row, self.reason)
            return
        self._stopping.wait(self.limits.backoff_s * 2 ** (self._failures_in_row - 1))

    def _reload(self, models: Sequence[str]) -> bool:
        """Give the models new stubs; True when the server answers again."""
        for model in models:
            old = [stub for stub in self._known.values() if stub.model == model]
            self._reloads += 1
            self.counts.reloads += 1
            try:
                self._load_again(model, old)
            except ControlError as error:
                self.reason = f"{model} cannot be loaded again: {error}"
                _log.warning("watchdog: %s", self.reason)
                return False
            self._replaced.append(_Replaced(old, time.monotonic()))
            for stub in old:
                del self._known[stub.pid]
        self._scan()
        return self._ask_canary() is None

    def _load_again(self, model: str, old: list[Stub]) -> None:
        try:
            # Triton loads a model again only where a file is newer, and keeps its other instances until then.
            for source in {stub.source for stub in old}:
                os.utime(source)
        except OSError:  # a repository that may not be written
            self.process.control.unload(model, self.limits.load_timeout_s)
        self.process.control.load(model, self.limits.load_timeout_s)

    def _restart(self) -> bool:
        """Replace the server process; True when it answers."""
        self.counts.restarts += 1
        self._known.clear()
        self._suspects.clear()
        self._replaced.clear()
        self._reloads = 0
        self.process.stop(at_once=True)
        if self._stopping.is_set():
            return False
        try:
            self.process.start()
        except (ServerStartError, PortTakenError) as error:
            self.reason = f"the server cannot be started again: {error}"
            _log.error("watchdog: %s", self.reason)
            return False
        self._scan()
        return self._ask_canary() is None

    def _end_replaced(self) -> None:
        for group in list(self._replaced):
            if time.monotonic() - group.since < self.limits.drain_s:
                continue
            for stub in group.stubs:
                kill_process(stub)
                (SHARED_MEMORY / stub.region).unlink(missing_ok=True)
            # Until they are dead they stay in the list, or a scan would take them for new ones.
            if not any(stub.alive() for stub in group.stubs):
                self._replaced.remove(group)
