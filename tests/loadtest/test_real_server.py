"""A short load test of the real server: what the client counts is what Triton counts; and all that is refused."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from triton_ads.cli import main
from triton_ads.client import RankError
from triton_ads.client.request import rank_inputs
from triton_ads.loadtest.load import Load, Running, apply_load
from triton_ads.loadtest.observe import Observer, Stretch
from triton_ads.loadtest.report import LoadReport
from triton_ads.loadtest.requests import triton_request, write_requests
from triton_ads.loadtest.statistics import ServerError, TritonStatistics

#: Looked for and never imported: locust makes the sockets and threads of its process gevent's.
LOCUST = pytest.mark.skipif(importlib.util.find_spec("locust") is None, reason="locust is not installed")
LOCUSTFILE = Path(__file__).parents[2] / "clients" / "locustfile.py"


def port(url: str) -> str:
    return url.rpartition(":")[2].partition("/")[0]


@pytest.fixture(scope="module")
def options(server, repository):
    ports = {"http": server.http_url, "metrics": server.metrics_url, "health": server.health_url}
    return [f"--{name}-port={port(url)}" for name, url in ports.items()] + ["--repository", str(repository)]


@pytest.fixture(scope="module")
def report(options, tmp_path_factory):
    out = tmp_path_factory.mktemp("loadtest") / "sub" / "report.html"
    # A deadline that any machine meets: what is tested is how the report comes about, not the machine.
    status = main(["loadtest", "--duration", "20", "--deadline-ms", "20000", "--out", str(out), *options])
    report = LoadReport.load(out.with_suffix(".json"))
    assert out.read_text().startswith("<!DOCTYPE html>")
    assert status == (0 if report.contenders[0].held else 1)
    return report


def test_client_and_server_count_the_same(report):
    (ours,) = report.contenders
    assert {check.what for check in ours.checks} >= {
        "requests, Triton's statistics",
        "requests, Triton's metrics",
        "requests refused, the models' metrics",
        "candidates ranked, the models' metrics",
    }
    for check in ours.checks:
        assert check.agrees, check
    assert ours.checks[0].client > 100
    assert ours.not_measured == []


def test_the_rated_load_is_one_that_held(report):
    (ours,) = report.contenders
    assert ours.held is not None, ours.steps
    assert ours.held.window.holds
    assert ours.held.window.p99_ms <= report.deadline_ms
    held = [step.offered for step in ours.steps if step.holds]
    assert 0 < ours.held.window.offered <= max(held)
    assert [step.offered for step in ours.steps] == sorted(step.offered for step in ours.steps)


def test_the_parts_of_the_report_fit_together(report, server):
    held = report.contenders[0].held
    served = held.cost.requests
    assert served >= held.window.requests * held.window.in_time  # and the warm-ups of its parts
    assert {m.model for m in held.models} == set(Observer(server.http_url, "rank").chain)
    first = next(m for m in held.models if m.model == Observer(server.http_url, "rank").chain[0])
    assert first.requests == pytest.approx(held.window.requests + held.before_parts + held.watchdog, rel=0.02)
    assert held.window in report.contenders[0].steps
    for model in held.models:
        assert 1 <= model.requests_per_execution <= 64
        assert model.compute_ms > 0
    assert sum(share.requests for share in held.tiers) == pytest.approx(served, rel=0.02)
    assert sum(fill.candidates for fill in held.fills) == pytest.approx(held.cost.candidates, rel=0.02)
    for fill in held.fills:
        assert 0 < fill.fill <= 1
    assert held.cost.core_s > 0
    assert sum(moment.requests for moment in held.moments) <= held.window.requests
    assert report.machine["triton"] == TritonStatistics(server.http_url).server_version()


def test_a_refused_request_is_no_failure_for_triton(server, http):
    """Why the report takes refusals from the models' metrics; where Triton changes this, so should the report."""
    observer = Observer(server.http_url, "rank", server.metrics_url)
    before = observer.read()
    for _ in range(3):
        with pytest.raises(RankError, match="insisted_tier"):
            http.rank([1000], user_id=100, tier="nope")
    stretch = Stretch.since(before, observer)
    assert stretch.refused() == 3
    assert stretch.asked() == stretch.asked_by_metrics() == 3
    if observer.chain == ("rank",):
        assert (stretch.statistics().succeeded, stretch.statistics().failed) == (3, 0)
    else:
        assert (stretch.answered(), stretch.statistics().failed) == (0, 6)


def test_deadlines_are_stamped_when_a_request_is_due(server, tmp_path):
    """What was prepared long ago is answered; what has no time left is given up by the server."""
    write_requests([triton_request("rank", rank_inputs(np.arange(1000, 1060), user_id=101))], tmp_path / "requests")
    running = Running(int(port(server.http_url)), session=-1)
    plenty = apply_load(Load("open", 40, 0.5, deadline_ms=10_000), running, tmp_path / "requests")
    none = apply_load(Load("open", 40, 0.5, deadline_ms=0.001), running, tmp_path / "requests")
    assert plenty.errors == 0
    assert plenty.served_candidates == 60 * plenty.served
    assert none.answered == 0
    assert none.errors == len(none.ms) > 0
    assert "deadline exceeded" in none.first_error


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (["--http-port=1"], r"no Triton answers HTTP at 127.0.0.1:1 .*triton-ads serve"),
        (["--metrics-port=1"], r"no metrics page at http://127.0.0.1:1/metrics .*--metrics-port says where it is"),
        (["--duration=5"], r"duration: 5 s found, 20 to 3600 s allowed"),
        (["--tier=gold"], r"--tier: 'gold' found, allowed: standard, high"),
        (["--model=mine_rank"], r"'mine_rank' found; allowed: rank"),
        (["--in-time=100"], r"--in-time: 100 % found, 50 to below 100 allowed"),
        (["--deadline-ms=0"], r"--deadline-ms: 0 found, above 0"),
        (["--repository=nowhere"], r"nowhere: no model repository"),
    ],
)
def test_what_cannot_be_tested_is_told(options, wrong, message, capsys, tmp_path):
    assert main(["loadtest", *options, "--out", str(tmp_path / "r.html"), *wrong]) == 1
    assert re.search(message, capsys.readouterr().err)
    assert not (tmp_path / "r.html").exists()


def test_a_model_that_is_not_served_is_told(server):
    with pytest.raises(ServerError, match="does not serve the model 'nobody'"):
        TritonStatistics(server.http_url).check_ready("nobody")


def test_two_reports_are_compared_by_the_command(report, tmp_path, capsys):
    path, html = tmp_path / "a.json", tmp_path / "out" / "compare.html"
    report.save(path)
    assert main(["loadtest", "compare", str(path), str(path), "--html", str(html)]) == 0
    assert "1.000" in capsys.readouterr().out
    assert html.read_text().startswith("<!DOCTYPE html>")
    (tmp_path / "bad.json").write_text("{}")
    assert main(["loadtest", "compare", str(path), str(tmp_path / "bad.json")]) == 1
    assert "bad.json: no report of `triton-ads loadtest` found" in capsys.readouterr().err


@LOCUST
@pytest.mark.parametrize("protocol", ["http", "grpc"])
def test_locust_asks_both_protocols(server, repository, protocol, tmp_path):
    url = server.http_url if protocol == "http" else server.grpc_url
    done = locust(
        f"{protocol.title()}Ranker", "--host", url, "--repository", repository, "--deadline-ms", "20000",
        "--users", "4", "--spawn-rate", "4", "--run-time", "6s", "--csv", tmp_path / "found",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    _head, *rows = (tmp_path / "found_stats.csv").read_text().splitlines()
    asked = {row.split(",")[1]: row.split(",") for row in rows}
    requests, failures = map(int, asked["Aggregated"][2:4])
    assert requests >= 1
    assert failures == 0
    assert {row.split(",")[0] for row in rows} == {protocol, ""}


@LOCUST
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["HttpRanker", "--host", "192.0.2.1"],
            "'192.0.2.1' found, 127.0.0.1 allowed; for a server elsewhere add --remote",
        ),
        (["--host", "127.0.0.1:8000"], "port 8000 found, and two protocols"),
    ],
)
def test_locust_says_what_is_wrong_and_sends_nothing(arguments, message, repository):
    done = locust("--repository", repository, *arguments, "--users", "1", "--run-time", "2s")
    assert done.returncode == 1
    assert message in done.stderr


def locust(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "locust", "-f", LOCUSTFILE, "--headless", "--only-summary", *arguments]
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=120)
