"""What the watchdog tells Prometheus, and that the document says the same."""

import re
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from triton_ads.server.watchdog import WatchdogCounts
from triton_ads.server.watchdog_metrics import METRICS, metrics_page

DOCUMENT = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_page_as_prometheus_reads_it() -> None:
    watchdog: Any = SimpleNamespace(ready=False, live=True, counts=WatchdogCounts(dead_stubs=2, canaries=7))
    page = metrics_page(watchdog)
    assert page.startswith(
        "# HELP triton_ads_ready 1 while every model answers, else 0\n# TYPE triton_ads_ready gauge\n"
    )
    assert [line for line in page.splitlines() if not line.startswith("#")] == [
        "triton_ads_ready 0",
        "triton_ads_live 1",
        "triton_ads_dead_stubs_total 2",
        "triton_ads_dead_servers_total 0",
        "triton_ads_canaries_total 7",
        "triton_ads_canary_failures_total 0",
        "triton_ads_reloads_total 0",
        "triton_ads_restarts_total 0",
        "triton_ads_failed_recoveries_total 0",
    ]


def test_every_count_of_the_watchdog_is_told() -> None:
    assert [m.field for m in METRICS if m.kind == "counter"] == [field.name for field in fields(WatchdogCounts)]


@pytest.mark.parametrize("metric", METRICS, ids=lambda m: m.name)
def test_counters_alone_end_in_total(metric: Any) -> None:
    assert metric.name.endswith("_total") == (metric.kind == "counter")


def test_the_document_has_every_metric_as_it_is() -> None:
    rows = re.findall(r"^\| `(triton_ads_\w+)` \| ([^|]+?) \|$", DOCUMENT.read_text(), re.MULTILINE)
    assert rows == [(metric.name, metric.help) for metric in METRICS]
