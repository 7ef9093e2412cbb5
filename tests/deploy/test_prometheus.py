"""Alert rules, tried by promtool; dashboards, every query of which a real Prometheus answers for a real server."""

import importlib.util
import json
import math
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

from tests.support.prometheus import SCRAPE_S, ask, needs, prometheus
from tests.support.tiny_release import ITEMS, tiny_recipe
from tests.support.tiny_target import target_recipe, write_target_release
from triton_ads.client import RankClient, RankError, TargetClient
from triton_ads.export.repository import write_repository
from triton_ads.server import TritonServer
from triton_ads.server.metrics import LATENCY_QUANTILES
from triton_ads.server.watchdog import WatchdogLimits

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus"
DASHBOARDS = sorted((DEPLOY / "grafana" / "dashboards").glob("*.json"))
TRAFFIC_S = 6.0


def run(*command: str) -> None:
    done = subprocess.run(command, cwd=RULES, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_and_the_alerts_are_valid() -> None:
    run(needs("promtool"), "check", "config", "prometheus.yml")


def test_every_alert_fires_where_it_must_and_nowhere_else() -> None:
    run(needs("promtool"), "test", "rules", "alerts_test.yml")


def test_no_alert_goes_untried() -> None:
    groups = yaml.safe_load((RULES / "alerts.yml").read_text())["groups"]
    alerts = {rule["alert"] for group in groups for rule in group["rules"]}
    tests = yaml.safe_load((RULES / "alerts_test.yml").read_text())["tests"]
    cases = [(case["alertname"], bool(case.get("exp_alerts"))) for test in tests for case in test["alert_rule_test"]]
    assert {name for name, fires in cases if fires} == alerts
    assert {name for name, fires in cases if not fires} == alerts


@pytest.fixture(scope="module")
def render() -> ModuleType:
    spec = importlib.util.spec_from_file_location("render", DEPLOY / "grafana" / "render.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_dashboards_are_what_render_py_says(render: ModuleType) -> None:
    assert [path.stem for path in DASHBOARDS] == sorted(render.DASHBOARDS)
    for path in DASHBOARDS:
        assert path.read_text() == render.render(path.stem), f"python {DEPLOY / 'grafana' / 'render.py'}"


def queries(path: Path) -> Iterator[tuple[str, str]]:
    """Title of the panel and PromQL, for every query of a dashboard."""
    dashboard: dict[str, Any] = json.loads(path.read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def bother(server: TritonServer, stop: threading.Event) -> None:
    """Requests of every kind that a panel shows: known and unknown, in time and late, ranked and generated."""
    with RankClient(server.grpc_url, timeout_s=30) as rank, TargetClient(server.grpc_url, timeout_s=30) as target:
        while not stop.is_set():
            rank.rank([*ITEMS[:20], -5], user_id=100, tier="high")
            rank.rank(ITEMS[:20], user_id=-77)
            rank.rank(ITEMS[:3], user_id=101)
            with suppress(RankError):  # it is too late before it arrives
                rank.rank(ITEMS[:3], user_id=101, deadline_ms=0.001)
            target.target(user_id=100, query="space zebra", top=1)
            target.target(user_id=101, top=60)


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that has watched a server answer all kinds of requests for some seconds."""
    needs("prometheus")
    folder = tmp_path_factory.mktemp("watched")
    release = write_target_release(folder / "release", target_recipe(tiny_recipe(), mode="exact"))
    write_repository(release, folder / "repository")
    limits = WatchdogLimits(canary_period_s=0.5)
    with TritonServer(folder / "repository", limits=limits, arguments=LATENCY_QUANTILES) as server:
        targets = {"triton": server.metrics_url.split("/")[2], "watchdog": server.health_url.split("/")[2]}
        stop = threading.Event()
        requests = threading.Thread(target=bother, args=(server, stop), daemon=True)
        requests.start()
        try:
            with prometheus(folder, targets) as url:
                time.sleep(TRAFFIC_S)
                yield url
        finally:
            stop.set()
            requests.join(30)


@pytest.mark.server
@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_query_of_a_dashboard_returns_numbers(watched: str, path: Path) -> None:
    window = f"{int(TRAFFIC_S)}s"
    empty = []
    for title, query in queries(path):
        filled = query.replace("$model", ".*").replace("$__rate_interval", window)
        found = [float(series["value"][1]) for series in ask(watched, filled)]
        if not any(math.isfinite(value) for value in found):
            empty.append(f"{title}: {filled}")
    assert not empty, "\n".join(empty)


@pytest.mark.server
def test_the_numbers_are_those_of_the_server(watched: str) -> None:
    """One query of each kind against what the traffic was."""
    assert {series["metric"]["job"]: series["value"][1] for series in ask(watched, "up")} == {
        "triton": "1",
        "watchdog": "1",
    }
    (ready,) = ask(watched, "triton_ads_ready")
    assert ready["value"][1] == "1"
    # Of four requests to rank that `bother` sends, one is late.
    window = f"{int(TRAFFIC_S - SCRAPE_S)}s"
    (late,) = ask(
        watched,
        f'sum(rate(triton_ads_refused_total{{cause="deadline_exceeded"}}[{window}]))'
        f' / sum(rate(triton_ads_batched_requests_total{{model="rank"}}[{window}]))',
    )
    assert float(late["value"][1]) == pytest.approx(0.25, abs=0.1)
    models = {series["metric"]["model"] for series in ask(watched, "triton_ads_batches_total")}
    assert models == {"rank", "generator", "trie_verifier"}


@pytest.mark.server
def test_the_autoscalers_queue_metric_is_the_longest_mean_wait_of_a_model(watched: str) -> None:
    rules = yaml.safe_load((DEPLOY / "kubernetes" / "metrics" / "adapter.yaml").read_text())["rules"]["custom"]
    (template,) = [rule["metricsQuery"] for rule in rules if rule["name"]["as"] == "triton_ads_queue_ms"]
    query = template.replace("<<.GroupBy>>", "job").replace("<<.LabelMatchers>>", 'job="triton"')
    (found,) = ask(watched, query)
    assert found["metric"] == {"job": "triton"}
    by_model = ask(
        watched,
        "rate(nv_inference_queue_duration_us[1m]) / rate(nv_inference_request_success[1m]) / 1000",
    )
    longest = max(value for s in by_model if math.isfinite(value := float(s["value"][1])))
    assert float(found["value"][1]) == pytest.approx(longest, rel=0.2)  # asked a moment apart, under traffic
