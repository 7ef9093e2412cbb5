"""The service benchmark: every contender answers what the model answers, and claims follow from outcomes."""

import copy
import json
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from tests.support.trained_build import TIER, randomise
from triton_ads.bench import serving, serving_requests
from triton_ads.bench.serving import DifferentScoresError, Plan
from triton_ads.bench.serving_contender import FASTAPI, NAIVE, OURS, UNMIXED, Ask
from triton_ads.bench.serving_cores import Cores, busy_s, on_core
from triton_ads.bench.serving_peers.lookup import Lookup
from triton_ads.bench.serving_peers.ranker import load_ranker
from triton_ads.bench.serving_plot import draw_plot
from triton_ads.bench.serving_report import ServingReport
from triton_ads.loadtest import traffic
from triton_ads.loadtest.load import Outcome
from triton_ads.server.processes import Process, read_process

MIX = "256 candidates"


@pytest.fixture(scope="module")
def release(layout):
    return layout.release.resolve()


@pytest.fixture(scope="module")
def ranker(layout, release):
    return load_ranker(release, layout.work("train", TIER) / "checkpoint.pt", TIER)


@pytest.fixture(scope="module")
def bench(layout, tmp_path_factory):
    return serving.Bench(layout, TIER, tmp_path_factory.mktemp("bench"), Cores.choose())


@pytest.fixture(scope="module")
def running(bench):
    """All contenders, started and checked."""
    with bench.started():
        yield bench


@pytest.mark.server
@pytest.mark.parametrize("name", [OURS, f"{OURS} as ensemble", NAIVE, UNMIXED, FASTAPI])
def test_a_contender_answers_what_the_model_answers(running, ranker, release, name):
    users, items = (np.load(release / "store" / side / "ids.npy") for side in ("users", "items"))
    random = np.random.default_rng(5)
    asks = [Ask(int(users[0]), items[:1]), Ask(int(users[-1]), random.choice(items, 700))]  # without a history, and one
    asks += [Ask(10**12, random.choice(items, 9)), Ask(int(users[3]), np.array([items[0], 10**12]))]  # nobody knows
    right = serving_requests.right_scores(ranker, release, asks)
    for ask, right_NK in zip(asks, right, strict=True):
        assert len(ask.candidates_N) == 1 or np.ptp(right_NK) > 0.01  # else any order would be right
        np.testing.assert_allclose(running.ask(name, ask), right_NK, rtol=0, atol=1e-5)


@pytest.mark.server
def test_another_checkpoint_than_the_releases_is_noticed(running, ranker, release):
    asks = serving_requests.samples(release, longest=1000)
    other = copy.deepcopy(ranker)
    randomise(other, seed=1)
    wrong = serving_requests.right_scores(other, release, asks)
    with pytest.raises(DifferentScoresError, match=r"ours, 256 candidates: scores differ by .* allowed 1e-04"):
        serving.check_scores(OURS, asks, [running.ask(OURS, ask) for ask in asks], wrong)


def test_a_missing_checkpoint_is_told(release, tmp_path):
    with pytest.raises(FileNotFoundError, match="no such checkpoint"):
        load_ranker(release, tmp_path / "checkpoint.pt", TIER)


def test_samples_have_the_edges_and_what_the_release_allows(release):
    lengths = [len(ask.candidates_N) for ask in serving_requests.samples(release, longest=500)]
    assert {1, 2, 256, 500} <= set(lengths)  # 700 is cut
    assert max(lengths) == 500


def test_the_log_normal_mix_has_its_median_and_its_limit():
    lengths = traffic.log_normal(np.random.default_rng(0), 20_000)
    assert abs(np.median(lengths) - 200) < 5  # the standard error of the median is 1.4
    assert lengths.min() >= 1
    assert lengths.max() == 2000
    assert abs(np.log(lengths).std() - 0.8) < 0.02


def test_the_lookup_gives_the_rows_of_the_store(release):
    lookup, store = Lookup(release), release / "store"
    users, items = np.load(store / "users" / "ids.npy"), np.load(store / "items" / "ids.npy")
    user = lookup.user(int(users[4])).inputs()
    stored = np.load(store / "users" / "rows.npy")[4]
    np.testing.assert_array_equal(user["user_ids"][0, : len(stored)], stored)
    np.testing.assert_array_equal(user["sequence_ids"][0], np.load(store / "users" / "sequences.npy")[4])
    np.testing.assert_array_equal(
        lookup.items(items[[2, 2]])["item_ids"], np.load(store / "items" / "rows.npy")[[2, 2]]
    )
    assert np.all(lookup.items(np.array([10**12]))["item_ids"] == 1)


@pytest.mark.server
def test_the_command_measures_and_draws(layout, tmp_path):
    report, plot = tmp_path / "report.json", tmp_path / "plot.svg"
    command = [sys.executable, "-c", "from triton_ads.cli import main; raise SystemExit(main())", "bench", "serving"]
    command += ["--quick", "--seconds", "0.1", "--recipe", layout.recipe, "--var", str(layout.var)]
    command += ["--json", str(report), "--plot", str(plot)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    document = json.loads(report.read_text())
    contenders = {row["contender"] for row in document["rows"]}
    assert contenders == {OURS, f"{OURS} as ensemble", NAIVE, UNMIXED, FASTAPI, "load generator"}
    # At an offered rate that is too high a server may refuse; clients that wait for their answers are all answered.
    errors = [row for row in document["rows"] if row["metric"] == "errors" and row["value"]]
    assert [row for row in errors if "offered" not in row["name"]] == []
    assert len(document["claims"]) == 10
    assert document["setting"]["tier"] == TIER
    ElementTree.parse(plot)
    assert "turn 1, 256 candidates, 32 clients" in done.stdout


@pytest.mark.server
def test_ctrl_c_leaves_nothing(layout):
    command = [sys.executable, "-u", "-c", "from triton_ads.cli import main; raise SystemExit(main())"]
    command += ["bench", "serving", "--recipe", layout.recipe, "--var", str(layout.var)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("starting FastAPI"):
                break
        started = {child.pid: child.started for child in descendants(process.pid)}
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    assert len(started) > 6  # four servers, their guardians and models
    # One that was just being started is ended by its guardian, which misses its launcher.
    end = time.monotonic() + 20
    while left := [now for pid, ticks in started.items() if (now := read_process(pid)) and now.started == ticks]:
        assert time.monotonic() < end, left
        time.sleep(0.1)
    assert not list(Path("/dev/shm").glob(f"triton_ads_{process.pid}_*"))


def descendants(pid: int) -> list[Process]:
    found = [p for path in Path("/proc").glob("[0-9]*") if (p := read_process(int(path.name)))]
    family = {pid}
    while more := {p.pid for p in found if p.parent in family} - family:
        family |= more
    return [p for p in found if p.pid in family - {pid}]


def outcome(rate: float, p99: float, seconds: float = 10.0) -> Outcome:
    answered = round(rate * seconds)
    return Outcome(seconds, [p99] * max(1, answered), answered, 0, "", answered, 0.1, 5.0)


def test_claims_are_medians_of_the_ratios_of_the_turns():
    report = ServingReport("any")
    for contender, rates, p99 in (
        (OURS, (100, 100, 100), 10.0),
        (NAIVE, (50, 40, 20), 12.0),  # 2, 2.5 and 5 times
        (FASTAPI, (25, 26, 30), 9.0),
        (UNMIXED, (70, 80, 90), 1.0),
    ):
        report.closed[contender, MIX, 32] = [outcome(rate, p99) for rate in rates]
    report.conclude()
    found = [(claim.claim.split(": ")[1], round(claim.value, 4), claim.holds) for claim in report.claims]
    assert found == [
        ("requests/s of ours / naive on Triton >= 2.5", 2.5, True),
        ("p99 of ours / naive on Triton <= 1", 0.8333, True),
        ("requests/s of ours / FastAPI >= 4", 3.8462, False),
        ("p99 of ours / FastAPI <= 1", 1.1111, False),
        ("requests/s of ours / unmixed on Triton >= 1.3", 1.25, False),
    ]


def test_a_contender_that_is_left_out_has_no_claim():
    report = ServingReport("any")
    for contender in (OURS, NAIVE, UNMIXED):
        report.closed[contender, MIX, 32] = [outcome(10, 1)]
    report.conclude()
    assert len(report.claims) == 3


def test_the_best_rate_is_the_highest_whose_p99_keeps_the_deadline():
    report = ServingReport("any", deadline_ms=100)
    report.closed[OURS, MIX, 32] = [outcome(10, 1)] * 2
    report.open[OURS, MIX, 50.0] = [outcome(50, 20), outcome(50, 90)]
    report.open[OURS, MIX, 80.0] = [outcome(80, 60), outcome(80, 120)]  # median 90
    report.open[OURS, MIX, 90.0] = [outcome(85, 400)]
    report.conclude()
    (best,) = [row for row in report.rows if row.metric == "rate with p99 <= 100 ms"]
    assert best.value == 80


def test_the_plot_has_a_point_for_each_rate_and_a_chart_for_each_mix():
    report = ServingReport("a < b", deadline_ms=100)
    for mix in (MIX, "log-normal"):
        for contender in (OURS, NAIVE):
            for rate, p99 in ((10.0, 5.0), (20.0, 50.0), (30.0, 500.0)):
                report.open[contender, mix, rate] = [outcome(rate, p99)]
    root = ElementTree.fromstring(draw_plot(report))
    name = "{http://www.w3.org/2000/svg}"
    assert len(list(root.iter(f"{name}circle"))) == 12
    assert [line.get("stroke") for line in root.iter(f"{name}polyline")] == ["#0072b2", "#d55e00"] * 2
    # 10 requests/s at 5 ms, 20 at 50, 30 at 500: each as far to the right and as far up as the last.
    places = [(float(c.get("cx", 0)), float(c.get("cy", 0))) for c in root.iter(f"{name}circle")]
    (x, y), (x2, y2), (x3, y3) = places[:3]
    assert x2 - x == pytest.approx(x3 - x2, abs=0.2)
    assert y - y2 == pytest.approx(y2 - y3, abs=0.2)
    assert x < x2
    assert y > y2
    assert "a < b" in "".join(root.itertext())


def test_cores_are_apart_where_there_are_two():
    cores = Cores.choose()
    available = os.sched_getaffinity(0)
    assert {cores.server, cores.generator} <= available
    assert (cores.server == cores.generator) == (len(available) == 1)
    with on_core(cores.server):
        child = subprocess.run([sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"], capture_output=True)
        assert child.stdout.decode().strip() == str({cores.server})
    assert os.sched_getaffinity(0) == available


def test_what_a_core_does_is_seen():
    cores = Cores.choose()
    before = busy_s(cores.server)
    with on_core(cores.server):
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
    assert busy_s(cores.server) - before >= 0.15  # ticks of 10 ms
    with pytest.raises(ValueError, match="core 100000: not in /proc/stat"):
        busy_s(100_000)


def test_quick_is_a_part_of_the_whole():
    quick, whole = Plan.of(1, quick=True), Plan.of(1, quick=False)
    for mix, clients in quick.closed.items():
        assert 32 in clients
        assert set(clients) <= set(whole.closed[mix])
    for mix, shares in quick.open.items():
        assert set(shares) <= set(whole.open[mix])
