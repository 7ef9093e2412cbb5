"""What the watchdog saw and did, as Prometheus reads it. docs/metrics.md explains each, and a test holds it to this."""

from dataclasses import dataclass
from typing import Literal

from triton_ads.server.watchdog import Watchdog

#: The text format of Prometheus.
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


@dataclass(frozen=True)
class WatchdogMetric:
    """One number; a counter is a field of WatchdogCounts."""

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    field: str


METRICS = (
    WatchdogMetric("triton_ads_ready", "gauge", "1 while every model answers, else 0", "ready"),
    WatchdogMetric("triton_ads_live", "gauge", "1 while the watchdog can repair, 0 when it gave up", "live"),
    WatchdogMetric("triton_ads_dead_stubs_total", "counter", "Processes of models that died", "dead_stubs"),
    WatchdogMetric("triton_ads_dead_servers_total", "counter", "Deaths of tritonserver", "dead_servers"),
    WatchdogMetric("triton_ads_canaries_total", "counter", "Questions that the watchdog asked", "canaries"),
    WatchdogMetric("triton_ads_canary_failures_total", "counter", "Of them, without a good answer", "canary_failures"),
    WatchdogMetric("triton_ads_reloads_total", "counter", "Models loaded again", "reloads"),
    WatchdogMetric("triton_ads_restarts_total", "counter", "Restarts of tritonserver", "restarts"),
    WatchdogMetric("triton_ads_failed_recoveries_total", "counter", "Repairs that failed", "failed_recoveries"),
)


def metrics_page(watchdog: Watchdog) -> str:
    """The page that /metrics answers."""
    lines = []
    for metric in METRICS:
        source = watchdog if metric.kind == "gauge" else watchdog.counts
        lines.append(f"# HELP {metric.name} {metric.help}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        lines.append(f"{metric.name} {int(getattr(source, metric.field))}")
    return "\n".join(lines) + "\n"
