import re
import threading
import time
from pathlib import Path

import pytest

from triton_ads.serving import counters as count
from triton_ads.serving.counters import METRICS, REPORT_SECONDS, Counters, Reporter

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_counts_add_up_and_are_handed_over_once():
    counters = Counters()
    counters.add(count.OOV, "user", amount=2)
    counters.add(count.OOV, "user")
    counters.add(count.OOV, "item", amount=0)
    counters.add(count.BATCHES)
    assert counters.drain() == {(count.OOV, ("user",)): 3, (count.BATCHES, ()): 1}
    assert counters.drain() == {}


def test_no_count_is_lost_between_threads():
    counters, total = Counters(), 0.0
    threads = [
        threading.Thread(target=lambda: [counters.add(count.BATCHES) for _ in range(5000)], daemon=True)
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        total += sum(counters.drain().values())
    total += sum(counters.drain().values())
    assert total == 20_000


def test_the_reporter_reports_in_time_and_the_rest_on_stopping():
    counters, seen = Counters(), []
    reporter = Reporter(counters, lambda *report: seen.append(report))
    counters.add(count.OOV, "user", amount=2)
    deadline = time.monotonic() + 10 * REPORT_SECONDS
    while not seen and time.monotonic() < deadline:
        time.sleep(0.01)
    assert seen == [(count.OOV, ("user",), 2)]
    counters.add(count.BATCHES)
    reporter.stop()
    assert seen[1:] == [(count.BATCHES, (), 1)]


def test_the_document_has_every_metric_as_it_is():
    rows = re.findall(r"^\| `(triton_ads_\w+)` \| (.*?) ?\| (.*?) \|$", DOCUMENT.read_text(), re.MULTILINE)
    documented = [(name, text, tuple(re.findall(r"`(\w+)`", labels))) for name, labels, text in rows]
    assert documented == [(metric.name, metric.help, metric.labels) for metric in METRICS]


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_names_are_prometheus_names(metric):
    assert re.fullmatch(r"triton_ads_[a-z_]+_total", metric.name)
    assert "model" not in metric.labels  # set for every metric by the model itself
    assert "_seconds" in metric.name or "second" not in metric.help.lower()
