"""Triton's metrics page as numbers."""

import re
import time
import urllib.request

# name{label="value",...} number
_SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

#: Options of tritonserver: p50, p95 and p99 of each model's requests and their parts, beside the sums.
LATENCY_QUANTILES = (
    "--metrics-config=summary_latencies=true",
    "--metrics-config=summary_quantiles=0.5:0.02,0.95:0.005,0.99:0.001",
)

#: The models report what they counted this often (triton_ads/serving/counters.py), and Triton's page is not cached.
REPORT_S = 0.3


def read_series(url: str) -> list[tuple[str, dict[str, str], float]]:
    """Name, labels and value of every series of the page."""
    with urllib.request.urlopen(url, timeout=5) as page:
        matches = map(_SAMPLE.match, page.read().decode().splitlines())
        return [(m.group(1), dict(_LABEL.findall(m.group(2))), float(m.group(3))) for m in matches if m]


def read_metric(url: str, name: str, **labels: str) -> float:
    """The sum of a metric over all series that have `labels`; 0 where there is none."""
    return sum(value for found, its, value in read_series(url) if found == name and labels.items() <= its.items())


def settled_metric(url: str, name: str, **labels: str) -> float:
    """The same when everything that was counted before this call has been reported."""
    time.sleep(REPORT_S)
    return read_metric(url, name, **labels)
