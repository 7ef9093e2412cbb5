"""What the models count. docs/metrics.md explains every metric, and a test holds the two together.

A call of Triton's metric interface is a message to another process, so the models add to plain numbers, and these
are reported by a thread of its own a few times a second.
"""

import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

#: How long a count may stay unreported.
REPORT_SECONDS = 0.25


@dataclass(frozen=True, eq=False)  # is itself alone: hashed for every count
class Metric:
    """A counter; each names its model in the label `model`, and `labels` come on top of it."""

    name: str
    help: str
    labels: tuple[str, ...] = ()


BATCHES = Metric("triton_ads_batches_total", "Executions of a model: batches of requests")
REQUESTS = Metric("triton_ads_batched_requests_total", "Requests in all batches of a model")
GROUPS = Metric("triton_ads_tier_groups_total", "Groups of requests of one tier run together", ("tier",))
GROUPED = Metric("triton_ads_tier_group_requests_total", "Requests in all groups of one tier", ("tier",))
RUNS = Metric("triton_ads_engine_runs_total", "Runs of an engine", ("tier",))
ENGINE_SECONDS = Metric("triton_ads_engine_seconds_total", "Seconds in an engine", ("tier",))
CANDIDATES = Metric("triton_ads_candidates_total", "Candidates scored", ("tier",))
SLOTS = Metric("triton_ads_tile_slots_total", "Places for candidates in the tiles run; the rest was padding", ("tier",))
BUCKET_HITS = Metric("triton_ads_bucket_hits_total", "Runs that found a bucket", ("tier", "bucket"))
BUCKET_MISSES = Metric("triton_ads_bucket_misses_total", "Groups that fit no bucket, by reason", ("tier", "reason"))
OOV = Metric("triton_ads_oov_ids_total", "Ids answered as out of vocabulary, by where they stood", ("side",))
COLD_STARTS = Metric("triton_ads_cold_starts_total", "Requests answered without any feature of their user")
UNKNOWN_ITEMS = Metric("triton_ads_unknown_items_total", "Candidates neither in the store nor sent with features")
WITHOUT_VALUE = Metric("triton_ads_candidates_without_value_total", "Candidates whose rank_by is no number: put last")
SCENARIO_DEFAULTS = Metric("triton_ads_scenario_defaults_total", "Requests answered as the default scenario")
TRUNCATED = Metric("triton_ads_truncated_events_total", "Events beyond the recipe's length of a sequence")
SEARCHES = Metric(
    "triton_ads_searches_total", "Searches in the identifier tree, by the level at which they verified", ("level",)
)
SEARCH_FORWARDS = Metric("triton_ads_search_forwards_total", "Forwards of all searches after the prompts'")
SEARCH_TOKENS = Metric("triton_ads_search_tokens_total", "Nodes of the tree that searches ran")
VERIFIED_TOKENS = Metric("triton_ads_verified_tokens_total", "Of them, nodes that were run to verify")
STEPS_SAVED = Metric("triton_ads_steps_saved_total", "Forwards fewer than one a level, by verification")
SEARCH_SECONDS = Metric("triton_ads_search_seconds_total", "Seconds in these forwards")
PREDICTED_SECONDS = Metric("triton_ads_predicted_search_seconds_total", "Seconds that the calibrated cost predicted")
CHOICES = Metric("triton_ads_tier_choices_total", "Tiers chosen, by reason", ("tier", "reason"))
REFUSED = Metric("triton_ads_refused_total", "Requests answered with an error, by cause", ("cause",))

METRICS = (
    BATCHES, REQUESTS, GROUPS, GROUPED, RUNS, ENGINE_SECONDS, CANDIDATES, SLOTS, BUCKET_HITS, BUCKET_MISSES,
    OOV, COLD_STARTS, UNKNOWN_ITEMS, WITHOUT_VALUE, SCENARIO_DEFAULTS, TRUNCATED,
    SEARCHES, SEARCH_FORWARDS, SEARCH_TOKENS, VERIFIED_TOKENS, STEPS_SAVED, SEARCH_SECONDS, PREDICTED_SECONDS,
    CHOICES, REFUSED,
)  # fmt: skip

#: Adds an amount to a metric with its label values.
Sink = Callable[[Metric, tuple[str, ...], float], None]


class Counters:
    """Numbers of one model instance. `add` is cheap and may be called from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: dict[tuple[Metric, tuple[str, ...]], float] = defaultdict(float)

    def add(self, metric: Metric, *labels: str, amount: float = 1) -> None:
        if amount:
            with self._lock:
                self._pending[metric, labels] += amount

    def drain(self) -> dict[tuple[Metric, tuple[str, ...]], float]:
        """What was added since the last call."""
        with self._lock:
            pending, self._pending = self._pending, defaultdict(float)
        return pending


class Reporter:
    """Hands a model's counts to `sink` every REPORT_SECONDS, and the last of them on `stop`."""

    def __init__(self, counters: Counters, sink: Sink) -> None:
        self._counters, self._sink = counters, sink
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="triton-ads-metrics", daemon=True)
        self._thread.start()

    def _loop(self) -> None:
        while not self._stopping.wait(REPORT_SECONDS):
            self._report()

    def _report(self) -> None:
        for (metric, labels), amount in self._counters.drain().items():
            self._sink(metric, labels, amount)

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._report()
