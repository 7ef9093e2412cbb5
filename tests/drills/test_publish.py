"""Publishing on a real server under load: nothing is lost, nothing is mixed, what is bad is refused."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.drills.traffic import QUESTIONS, Traffic, check_no_mixture, questions_alone
from tests.support.next_release import derived, write_releases
from tests.support.tiny_release import tiny_recipe
from tests.support.tiny_target import target_recipe
from triton_ads.client import TargetClient
from triton_ads.export.repository import write_repository
from triton_ads.export.served import PublishRunningError
from triton_ads.manifest import Manifest
from triton_ads.server import TritonServer
from triton_ads.server.publish import Publisher, PublishLimits
from triton_ads.server.release_canary import CanaryError, ReleaseCanary
from triton_ads.server.release_checks import PublishError
from triton_ads.server.watchdog import WatchdogLimits

pytestmark = pytest.mark.server

QUICK = PublishLimits(watch_s=1.0, watch_period_s=0.2, quiet_s=0.5)


class Place:
    """A server, its repository, and releases that may be published: the first is served."""

    def __init__(self, folder, recipe, count):
        self.releases = write_releases(folder / "releases", recipe, count)
        self.repository = folder / "repository"
        write_repository(self.releases[0], self.repository)
        self.server = TritonServer(self.repository, limits=WatchdogLimits(canary_period_s=1.0))

    def publisher(self, **options):
        return Publisher(self.repository, self.server.http_url, **{"limits": QUICK, **options})

    def served(self):
        (release,) = questions_alone(self.server)
        return release

    def files(self):
        """Everything in the repository but bytecode."""
        found = self.repository.rglob("*")
        return {str(p.relative_to(self.repository)) for p in found if "__pycache__" not in p.parts and p.name[0] != "."}


def until(condition, limit_s=20):
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end, f"it did not happen within {limit_s} s"
        time.sleep(0.02)


def name_of(release):
    return Manifest.load(release, verify_files=False).release


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("publish"), tiny_recipe(), 3)
    with place.server:
        yield place


def test_a_new_release_under_load_loses_no_request_and_mixes_no_answer(place, report):
    first, second, _ = place.releases
    expected = questions_alone(place.server)
    old = first.with_name("tiny-000000000000")
    shutil.copytree(first, old)
    os.utime(old / "manifest.json", (0, 0))
    before = place.server.watchdog.status()["counts"]
    with Traffic(place.server) as traffic:
        traffic.wait(200)
        done = place.publisher(keep=1).publish(second)
        traffic.wait(200)
    expected |= questions_alone(place.server)
    assert (done.release, done.before, done.pruned) == (name_of(second), name_of(first), [old.name])
    assert traffic.errors == []
    assert min(traffic.releases().values()) >= 200
    check_no_mixture(traffic.answers, expected)
    steps = ", ".join(f"{step} {seconds:.1f}" for step, seconds in done.seconds.items())
    report("publish", f"{traffic.releases()} answers, none lost or mixed; seconds: {steps}")
    # Had the user's part of one met the other's ads, that would have shown.
    for question in QUESTIONS:
        one, other = (expected[name][question].scores for name in expected)
        assert np.abs(np.sort(one, 0) - np.sort(other, 0)).min() > 1e-4
    after = place.server.watchdog.status()["counts"]
    assert [after[n] for n in ("dead_stubs", "restarts", "reloads")] == [
        before[n] for n in ("dead_stubs", "restarts", "reloads")
    ]
    stubs = place.server.process.stubs()
    assert {stub.source.parent.name for stub in stubs} == {"2"}
    assert len({stub.model for stub in stubs}) == len(stubs)


@pytest.mark.parametrize("layout", ["single", "ensemble"])
def test_generated_ads_are_published_with_the_rest_in_either_layout(tmp_path, layout):
    place = Place(tmp_path, target_recipe(tiny_recipe(layout=layout)), 2)
    first, second = place.releases
    with place.server as server:
        expected = questions_alone(server)

        def generated(model, answered):
            with TargetClient(server.grpc_url, model=model, timeout_s=20) as client:
                return [answered(client, user) for user in (100, 101, 107) for _ in range(3)]

        with Traffic(server, clients=3) as traffic:
            traffic.wait(50)
            place.publisher().publish(second)
            traffic.wait(50)
            targets = generated("target", lambda client, user: client.target(user_id=user, top=3).release)
            ads = generated("ads", lambda client, user: client.ads(user_id=user, top=3).ranking.release)
        expected |= questions_alone(server)
        assert traffic.errors == []
        assert set(traffic.releases()) == {name_of(first), name_of(second)}
        check_no_mixture(traffic.answers, expected)
        assert set(targets) == set(ads) == {name_of(second)}
        assert {stub.source.parent.name for stub in server.process.stubs()} == {"2"}


def test_rollback_is_one_command_and_goes_on_to_the_release_before(place):
    first, second, third = place.releases
    if place.served() != name_of(second):
        place.publisher().publish(second)
    place.publisher().publish(third)
    command = [sys.executable, "-m", "triton_ads.cli", "rollback", "--watch-s", "0"]
    command += ["--repository", str(place.repository), "--url", place.server.http_url]
    with Traffic(place.server) as traffic:
        for expected, on in ((second, f"another rollback goes to release {name_of(first)}"), (first, "nothing was")):
            said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            assert f"release {name_of(expected)} serves again, in the place of " in said
            assert f"; {on}" in said
            assert place.served() == name_of(expected)
    assert traffic.errors == []
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (1, "")
    assert "nothing was published before what rank serves" in again.stderr


def refusals(release, tmp_path):
    """Releases that must not be served, and a part of the reason."""
    copy = tmp_path / "releases" / release.name
    shutil.copytree(release, copy)

    def fresh(name):
        folder = tmp_path / name / release.name
        shutil.copytree(release, folder)
        return folder

    corrupt = fresh("corrupt")
    with (corrupt / "tiers" / "high" / "table.bin").open("r+b") as file:
        file.write(b"\xff")
    yield corrupt, "table.bin: digest"
    short = fresh("short")
    (short / "tiers" / "standard" / "item.onnx").unlink()
    yield short, "item.onnx: No such file"
    other = fresh("other")
    shutil.copy(other / "tiers" / "standard" / "item.onnx", other / "tiers" / "high" / "item.onnx")
    yield other, "item.onnx: digest"
    dishonest = {"label": "cvr", "scenario": None, "examples": 10_000, "positives": 1000, "predicted": 3000}
    for part, value, reason in (
        ("parity", {"split": 0.25}, "probabilities differ by 2.50e-01"),
        ("calibration", [dishonest], "predicted over actual is 3.000"),
    ):
        folder = fresh(part)
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest["tiers"]["high"][part] = value
        (folder / "manifest.json").write_text(json.dumps(manifest))
        yield folder, reason

    def no_graph(folder):
        (folder / "tiers" / "high" / "user.onnx").write_bytes(b"not a graph")

    # Digests fit, and the files cannot be used: only Triton finds that.
    yield derived(copy, no_graph), "was taken back"


def test_what_is_corrupt_or_mismatched_is_refused_and_the_old_one_serves(place, tmp_path):
    alone, files = questions_alone(place.server), place.files()
    last = next(r for r in place.releases if name_of(r) != place.served())
    with Traffic(place.server) as traffic:
        for release, reason in refusals(last, tmp_path):
            with pytest.raises(PublishError, match=reason):
                place.publisher().publish(release)
    assert traffic.errors == []
    assert set(traffic.releases()) == set(alone)
    check_no_mixture(traffic.answers, alone)
    assert place.files() == files


def test_a_release_with_other_tensors_needs_a_restart_and_says_so(place, tmp_path):
    (other,) = write_releases(tmp_path, tiny_recipe(max_batch_requests=3), 1)
    with pytest.raises(PublishError, match=r"rank.*needs other tensors or limits"):
        place.publisher().publish(other)
    with pytest.raises(PublishError, match=f"^nothing new to publish: release {place.served()} is served$"):
        place.publisher().publish(next(r for r in place.releases if name_of(r) == place.served()))
    films = tiny_recipe(prefix="films").model_copy(update={"name": "films"})
    (new,) = write_releases(tmp_path, films, 1)
    with pytest.raises(PublishError, match="serves tiny as rank; films is not served yet: stop the server, build"):
        place.publisher().publish(new)


def test_a_release_that_fails_after_the_switch_is_taken_back(place, monkeypatch):
    before = place.served()
    other = next(r for r in place.releases if name_of(r) != before)
    files = place.files()
    asked = []

    def fail_when_live(canary, model, *, quick=False):
        if quick:
            asked.append(place.served())
            raise CanaryError("found by the test")

    monkeypatch.setattr(ReleaseCanary, "rank", fail_when_live)
    with Traffic(place.server) as traffic:
        with pytest.raises(PublishError, match=r"taken back.*found by the test"):
            place.publisher().publish(other)
        traffic.wait(50)
    assert asked == [name_of(other)] * 2  # it did serve
    assert traffic.errors == []
    assert set(traffic.releases()) == {before, name_of(other)}
    assert place.served() == before
    assert place.files() == files


def test_what_publishing_costs_the_requests_beside_it(place, report, full):
    """Half-loaded: 4 clients that pause. The ratio is told, not judged: it is that of the machine's cores."""
    calm, busy = [], []
    with Traffic(place.server, clients=4, pause_s=0.02) as traffic:
        for _ in range(10 if full else 1):
            began = time.monotonic()
            traffic.wait(300)
            calm.append(traffic.p99_ms(began, time.monotonic()))
            began = time.monotonic()
            served = place.served()
            place.publisher().publish(next(r for r in place.releases if name_of(r) != served))
            busy.append(traffic.p99_ms(began, time.monotonic()))
    assert traffic.errors == []
    ratios = np.array(busy) / np.array(calm)
    report(
        "publish",
        f"{len(busy)} under {len(traffic.answers)} requests, none lost; p99 {np.median(calm):.0f} ms, while publishing "
        f"{np.median(busy):.0f} ms: {np.median(ratios):.1f} times (median; {ratios.min():.1f} to {ratios.max():.1f})",
    )


def test_a_publisher_that_is_killed_has_published_nothing(place):
    """Killed after the switch: the next start serves the old release, and so does the next publisher's first look."""
    before, files = place.served(), place.files()
    other = next(r for r in place.releases if name_of(r) != before)
    command = [sys.executable, "-m", "triton_ads.cli", "publish", str(other), "--watch-s", "600"]
    command += ["--repository", str(place.repository), "--url", place.server.http_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as publisher:
        assert publisher.stdout is not None
        until(lambda: "switch" in publisher.stdout.readline())
        assert place.served() == name_of(other)
        with pytest.raises(PublishRunningError, match=str(publisher.pid)):
            place.publisher().publish(other)
        publisher.kill()
    os.kill(place.server.process.server_pid(), signal.SIGKILL)
    until(lambda: place.server.watchdog.counts.restarts and place.server.watchdog.ready)
    assert place.served() == before
    assert place.files() == files
