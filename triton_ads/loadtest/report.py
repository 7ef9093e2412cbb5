"""The document of a load test: what `triton-ads loadtest` writes beside its page, and `compare` reads."""

from datetime import datetime
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from triton_ads.loadtest.judgement import TIMEOUTS
from triton_ads.loadtest.load import KEPT_UP

FORMAT = 2
#: How far the client's and the server's counts may be apart.
TOLERANCE = 0.02


class ReportError(RuntimeError):
    """A file is not the document of a load test."""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())


class Window(_Part):
    """What came of one offered rate. Times are of all requests, also of those that failed, since they were due."""

    phase: Literal["rising", "held"]
    offered: float  # requests a second that the Poisson process has in the mean
    seconds: float
    requests: int  # that were due: in a short window chance makes that more or less than `offered * seconds`
    answered_well: int  # of those, the late ones included
    answered: float  # a second, well, within the window, whenever asked
    p50_ms: float
    p95_ms: float
    p99_ms: float
    in_time: float  # share of what was due that was answered well within the deadline
    holds: bool  # that is as much as was asked for, and the server kept up
    causes: dict[str, int]  # why the others were not
    generator_busy: float  # share of its core

    @property
    def timeouts(self) -> float:
        """Share of what was due that came too late or not at all."""
        return sum(count for cause, count in self.causes.items() if cause in TIMEOUTS) / max(1, self.requests)

    @property
    def due(self) -> float:
        """Requests that were due a second."""
        return self.requests / self.seconds

    @property
    def kept_up(self) -> bool:
        """See `Outcome.kept_up`."""
        return round(self.answered * self.seconds) >= KEPT_UP * self.requests


class Moment(_Part):
    """One second of the load that was held, by when its requests were due."""

    at_s: float
    requests: int
    p50_ms: float | None
    p99_ms: float | None
    failed: int  # the late ones among them


class Usage(_Part):
    """One second of a server's processes."""

    at_s: float
    cores: dict[str, float]
    memory_mb: dict[str, float]


class ModelTimes(_Part):
    """Triton's means over the requests of one model."""

    model: str
    requests: int
    executions: int
    queue_ms: float
    input_ms: float
    compute_ms: float
    output_ms: float

    @property
    def requests_per_execution(self) -> float:
        return self.requests / max(1, self.executions)


class TierShare(_Part):
    tier: str
    reason: str
    requests: int


class TileFill(_Part):
    tier: str
    candidates: int
    slots: int

    @property
    def fill(self) -> float:
        return self.candidates / max(1, self.slots)


class Cost(_Part):
    """Processor time of all processes of the server, and what was ranked well in it."""

    core_s: float
    requests: int
    candidates: int

    @property
    def candidates_per_core_s(self) -> float:
        return self.candidates / self.core_s

    @property
    def core_h_per_million_candidates(self) -> float:
        """
        >>> Cost(core_s=36.0, requests=100, candidates=20_000).core_h_per_million_candidates
        0.5
        """
        return self.core_s / 3600 / (self.candidates / 1e6)

    @property
    def core_h_per_million_requests(self) -> float:
        return self.core_s / 3600 / (self.requests / 1e6)


class Held(_Part):
    """The rated load: the highest rate that held for the rest of the time.

    The server's counts and its processor time are of the whole stretch: of what was due in the window, and beside it
    of `before_parts` and `watchdog`.
    """

    window: Window
    before_parts: int  # requests that were sent before the window of a part began, so that it begins with queues
    watchdog: int  # requests of the server's own watchdog
    candidates_per_s: float
    moments: list[Moment]
    usage: list[Usage]
    models: list[ModelTimes]
    tiers: list[TierShare]
    fills: list[TileFill]
    cost: Cost | None


class Check(_Part):
    """One count as the client and as the server have it, over the whole run."""

    what: str
    client: float
    server: float
    watchdog: int  # what the server's own watchdog asked meanwhile; `server` is without it
    total: float  # what the difference is a share of

    @property
    def difference(self) -> float:
        return abs(self.client - self.server) / self.total if self.total else 0.0

    @property
    def agrees(self) -> bool:
        return self.difference <= TOLERANCE


class Contender(_Part):
    name: str
    what: str
    #: Every rate that was offered, by rate and then in their order; also those that failed, rising or held. Of a rate
    #: that was held, the parts that held are one window, and the part that failed is another.
    steps: list[Window]
    held: Held | None  # None: no rate held
    checks: list[Check]
    not_measured: list[str]

    @property
    def curve(self) -> list[Window]:
        """One window a rate, the one that decided, by rate."""
        return list({window.offered: window for window in self.steps}.values())

    @property
    def failed_holds(self) -> list[Window]:
        """The parts that failed of rates that had held for a step."""
        return [window for window in self.steps if window.phase == "held" and not window.holds]


class LoadReport(_Part):
    format: int = FORMAT
    command: str
    began: datetime
    seconds: float
    deadline_ms: float
    in_time: float  # the share of requests that had to be answered well within it
    recipe: str
    release: str
    tier: str  # that requests insisted on; "": the router chose
    traffic: str
    machine: dict[str, str | int | float]
    contenders: list[Contender]

    def save(self, path: Path) -> None:
        path.write_text(self.model_dump_json(indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> Self:
        """
        Raises:
            ReportError: the file is not what `save` writes.
            OSError: it cannot be read.
        """
        try:
            text = path.read_text(encoding="utf-8")
            found = _Format.model_validate_json(text).format  # before the rest, which differs between formats
            if found != FORMAT:
                raise ReportError(f"{path}: format {found} found, {FORMAT} allowed; run the load test again")
            return cls.model_validate_json(text)
        except (ValidationError, UnicodeDecodeError) as error:
            first = str(error).splitlines()[:3]
            raise ReportError(f"{path}: no report of `triton-ads loadtest` found: {' '.join(first)}") from None


class _Format(BaseModel):
    format: int
