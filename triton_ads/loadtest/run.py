"""One server under load: warm-up, rising rates until one fails, the highest that holds for the rest of the time."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Literal

from triton_ads.loadtest.figures import problems
from triton_ads.loadtest.judgement import IN_TIME, causes, judged_ms, meets, merged
from triton_ads.loadtest.load import Load, Outcome, Running, apply_load, percentile
from triton_ads.loadtest.observe import Observer, Reading, Stretch
from triton_ads.loadtest.report import Check, Contender, Cost, Held, Moment, Usage, Window
from triton_ads.loadtest.schedule import Schedule
from triton_ads.loadtest.search import RateSearch
from triton_ads.loadtest.usage import Sample, Sampler

WARM_UP_CLIENTS = 4
#: Rates begin at this share of what WARM_UP_CLIENTS reached; a server that merges requests can do more than they ask.
FIRST = 0.4
BACK_OFF = 0.9  # of a rate that does not hold for longer; the next times by more
ATTEMPTS = 2  # a rate has failed when it failed so often in a row: one stall of the machine is not the server's limit
PATIENCE = 8  # times that the rate is lowered before it is said that none holds

Say = Callable[[str], None]


@dataclass
class Trial:
    """One server, one traffic.

    Args:
        name, what: how the report calls it.
        server: its port, and the session of its processes; a session without processes where they cannot be seen.
        requests: a file of prepared requests.
        visible: whether its processes can be seen.
        in_time: share of requests that must be answered in time for a rate to hold.
    """

    name: str
    what: str
    server: Running
    requests: Path
    observer: Observer
    deadline_ms: float
    visible: bool
    say: Say
    in_time: float = IN_TIME
    _loads: list[Outcome] = field(default_factory=list)

    def run(self, schedule: Schedule) -> Contender:
        """
        Raises:
            LoadError: the server closed a connection, or the generator failed.
            ServerError: the server does not answer.
        """
        end = time.monotonic() + schedule.total_s
        before = self.observer.read()
        with Sampler(self.server) as sampler:
            self.say(f"warm-up: {WARM_UP_CLIENTS} clients for {schedule.warm_up_s:g} s")
            warm = self._apply(Load("closed", WARM_UP_CLIENTS, schedule.warm_up_s, deadline_ms=self.deadline_ms))
            steps, rate = self._rise(schedule, max(1.0, FIRST * warm.rate))
            parts, held = ([], None) if rate is None else self._hold(rate, schedule, end, sampler)
        return Contender(
            name=self.name,
            what=self.what,
            steps=sorted(steps + parts, key=lambda step: step.offered),
            held=held,
            checks=self._checks(Stretch.since(before, self.observer)),
            not_measured=self._not_measured(before),
        )

    def _rise(self, schedule: Schedule, first: float) -> tuple[list[Window], float | None]:
        search, steps = RateSearch(first), []
        end = time.monotonic() + schedule.rising_s
        while search.rate is not None and time.monotonic() < end:
            for seed in range(ATTEMPTS):
                outcome = self._apply(self._open(search.rate, schedule.step_of(search.rate), seed))
                steps.append(self._window("rising", search.rate, outcome))
                self.say(_line(steps[-1]))
                if steps[-1].holds:
                    break
            search.record(steps[-1].holds)
        return steps, search.highest

    def _hold(self, rate: float, schedule: Schedule, end: float, sampler: Sampler) -> tuple[list[Window], Held | None]:
        """All windows, those of rates that failed too, and the rated load."""
        lowered, windows = 0, list[Window]()
        while lowered <= PATIENCE:
            self.say(f"holding {rate:.1f} requests/s")
            before, start = self.observer.read(), sampler.now_s()
            chunks: list[Outcome] = []
            while not chunks or end - time.monotonic() > schedule.chunk_s:
                outcome = self._apply(self._open(rate, schedule.chunk_of(rate), seed=1 + lowered + len(chunks)))
                window = self._window("held", rate, outcome)
                self.say(_line(window))
                if not window.holds:
                    windows += [self._window("held", rate, merged(chunks))] if chunks else []
                    windows.append(window)
                    break
                chunks.append(outcome)
            else:
                held = self._held(rate, merged(chunks), Stretch.since(before, self.observer), sampler, start)
                return [*windows, held.window], held
            rate, lowered = rate * (BACK_OFF - 0.05 * lowered), lowered + 1
        return windows, None

    def _held(self, rate: float, outcome: Outcome, stretch: Stretch, sampler: Sampler, start: float) -> Held:
        cost = None
        if self.visible and outcome.served_candidates:
            core_s = outcome.core_ms * outcome.served / 1e3
            cost = Cost(core_s=core_s, requests=outcome.served_well, candidates=outcome.served_candidates)
        ranked = sum(n for n, failure in zip(outcome.candidates, outcome.failures, strict=True) if not failure)
        return Held(
            window=self._window("held", rate, outcome),
            before_parts=outcome.served - sum(number >= 0 for number in outcome.numbers),
            watchdog=stretch.canaries,
            candidates_per_s=ranked / outcome.seconds,
            moments=moments(outcome, self.deadline_ms),
            usage=usage([s for s in sampler.samples if s.at_s >= start]) if self.visible else [],
            models=stretch.times(),
            tiers=stretch.tiers(),
            fills=stretch.fills(),
            cost=cost,
        )

    def _open(self, rate: float, seconds: float, seed: int = 0) -> Load:
        return Load("open", rate, seconds, seed, self.deadline_ms)

    def _apply(self, load: Load) -> Outcome:
        outcome = apply_load(load, self.server, self.requests)
        self._loads.append(outcome)
        return outcome

    def _window(self, phase: Literal["rising", "held"], offered: float, outcome: Outcome) -> Window:
        in_time = sum(ms <= self.deadline_ms for ms in judged_ms(outcome))
        return Window(
            phase=phase,
            offered=offered,
            seconds=outcome.seconds,
            requests=len(outcome.ms),
            answered_well=outcome.failures.count(""),
            answered=outcome.rate,
            p50_ms=outcome.percentile(0.5),
            p95_ms=outcome.percentile(0.95),
            p99_ms=outcome.percentile(0.99),
            in_time=in_time / max(1, len(outcome.ms)),
            holds=meets(outcome, self.deadline_ms, self.in_time),
            causes=causes(outcome, self.deadline_ms),
            generator_busy=outcome.busy,
        )

    def _checks(self, stretch: Stretch) -> list[Check]:
        served, well = sum(o.served for o in self._loads), sum(o.served_well for o in self._loads)
        candidates = sum(o.served_candidates for o in self._loads)
        canaries = stretch.canaries
        found: list[tuple[str, float, float | None, float, int]] = [
            ("requests, Triton's statistics", served, stretch.asked(), served, canaries),
            ("requests, Triton's metrics", served, stretch.asked_by_metrics(), served, canaries),
            ("requests answered, Triton's statistics", well, stretch.answered(), served, canaries),
            ("requests refused, the models' metrics", served - well, stretch.refused(), served, 0),
            ("candidates ranked, the models' metrics", candidates, stretch.candidates(), candidates, canaries),
        ]
        return [
            Check(what=what, client=client, server=server - watchdog, watchdog=watchdog, total=total)
            for what, client, server, total, watchdog in found
            if server is not None
        ]

    def _not_measured(self, reading: Reading) -> list[str]:
        found = []
        if not self.visible:
            found.append("processor time, memory and cost: the server's processes cannot be seen from here")
        if not reading.metrics:
            found.append("tiers and tile fill: no metrics page was given, or it names no model that was asked")
        return found


def moments(outcome: Outcome, deadline_ms: float) -> list[Moment]:
    """The outcome second by second; a last second that is not whole is left out."""
    seconds: list[list[int]] = [[] for _ in range(max(1, int(outcome.seconds + 1e-9)))]
    for i, due in enumerate(outcome.due_s):
        if due < len(seconds):
            seconds[int(due)].append(i)
    judged = judged_ms(outcome)
    return [
        Moment(
            at_s=at,
            requests=len(found),
            p50_ms=percentile([outcome.ms[i] for i in found], 0.5) if found else None,
            p99_ms=percentile([outcome.ms[i] for i in found], 0.99) if found else None,
            failed=sum(judged[i] > deadline_ms for i in found),
        )
        for at, found in enumerate(seconds)
    ]


def usage(samples: list[Sample]) -> list[Usage]:
    """Cores in use between two samples, and memory at the second."""
    found = []
    for before, after in pairwise(samples):
        seconds = after.at_s - before.at_s
        if seconds <= 0.1:  # the last sample comes when it is asked to stop
            continue
        found.append(
            Usage(
                at_s=after.at_s - samples[0].at_s,
                cores={name: max(0.0, s - before.cpu_s.get(name, 0.0)) / seconds for name, s in after.cpu_s.items()},
                memory_mb={name: nbytes / 1e6 for name, nbytes in after.memory_bytes.items()},
            )
        )
    return found


def _line(window: Window) -> str:
    wrong = problems(window)
    return (
        f"  {window.offered:7.1f}/s offered for {window.seconds:4.1f} s: due {window.requests:5}, "
        f"answered {window.answered_well:5}, p50 {window.p50_ms:6.1f} ms, "
        f"p95 {window.p95_ms:6.1f} ms, p99 {window.p99_ms:6.1f} ms, {window.in_time:7.2%} in time: "
        f"{'holds' if window.holds else 'does not hold'}{f' ({wrong})' if wrong else ''}"
    )
