"""Triton's metrics page as numbers."""

import re
import time
import urllib.request

# name{label="value",...} number
_SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$")
_LABEL = re.compile(r'(\w+)="([^"]*)"')

#: The models report what they counted this often (triton_ads/serving/counters.py), and Triton's page is not cached.
REPORT_S = 0.3


def read_metric(url: str, name: str, **labels: str) -> float:
    """The sum of a metric over all series that have `labels`; 0 where there is none."""
    total = 0.0
    for line in urllib.request.urlopen(url, timeout=5).read().decode().splitlines():
        match = _SAMPLE.match(line)
        if match and match.group(1) == name and labels.items() <= dict(_LABEL.findall(match.group(2))).items():
            total += float(match.group(3))
    return total


def settled_metric(url: str, name: str, **labels: str) -> float:
    """The same when everything that was counted before this call has been reported."""
    time.sleep(REPORT_S)
    return read_metric(url, name, **labels)
