"""A server that is asked more than it can: what is answered is in time, and what cannot be is refused.

The model sleeps for every request, so that the server's capacity is known, and is the same on a busy machine.
"""

import numpy as np
import pytest

from tests.drills.open_loop import offer
from tests.drills.slow import slow_down
from tests.support.tiny_release import tiny_recipe, write_tiny_release
from triton_ads.client import RankError, RankTimeoutError
from triton_ads.export.repository import write_repository
from triton_ads.server import TritonServer
from triton_ads.server.watchdog import WatchdogLimits

pytestmark = pytest.mark.server

LIMITS = WatchdogLimits(canary_period_s=1.0)


def serve(folder, seconds, *tiers, **serving):
    """A server of the tiny release, of which each request of the tiers takes `seconds`."""
    recipe = tiny_recipe(max_batch_requests=8, **serving)
    write_repository(write_tiny_release(folder / "release", recipe), folder / "repository")
    slow_down(folder / "repository" / "rank", seconds, *tiers)
    return TritonServer(folder / "repository", limits=LIMITS)


def test_at_twice_the_capacity_goodput_stays_and_the_server_is_well(tmp_path, report):
    deadline_ms = 400.0
    with serve(tmp_path, 0.01, "standard") as narrow:
        rates = [offer(narrow.grpc_url, rate, 3, deadline_ms, tier="standard") for rate in (70, 85, 100)]
        peak = max(found.goodput for found in rates)
        twice = offer(narrow.grpc_url, 2 * peak, 5, deadline_ms, tier="standard")
        after = offer(narrow.grpc_url, 30, 1, deadline_ms, tier="standard")
        status = narrow.watchdog.status()
    refused = twice.failures(RankError)
    report(
        "overload",
        f"peak {peak:.0f}/s, at twice that {twice.goodput:.0f}/s ({twice.goodput / peak:.0%}); of {twice.asked} "
        f"{len(refused)} refused after {np.median(refused) * 1000:.0f} ms (median), "
        f"{len(twice.failures(RankTimeoutError))} not waited for",
    )
    assert twice.goodput >= 0.8 * peak
    assert all("deadline exceeded" in str(error) for error, _ in twice.failed if type(error) is RankError)
    assert twice.other_failures(RankError, RankTimeoutError) == []
    assert len(after.answered_s) >= 0.9 * after.asked
    assert (status["counts"]["restarts"], status["ready"]) == (0, True)


def test_a_slow_high_tier_keeps_deadlines_and_the_default_tier_takes_over(tmp_path, report):
    """The high tier takes 100 ms a request, of which its manifest knows nothing: 10 a second, and 40 are asked."""
    with serve(tmp_path, 0.1, "high") as slow:
        first, then = (offer(slow.grpc_url, 40, 4, 300.0, seed=seed) for seed in (0, 1))
    for when, found in (("first", first), ("next", then)):
        by_tier = ", ".join(f"{count} {tier}" for tier, count in found.tiers.items())
        report("slow scorer", f"{when} 4 s: {len(found.answered_s)} of {found.asked} answered in time: {by_tier}")
        assert all("deadline exceeded" in str(error) for error, _ in found.failed if type(error) is RankError)
        assert found.other_failures(RankError, RankTimeoutError) == []
    assert first.tiers["high"] > 0
    assert len(then.answered_s) > 0.6 * then.asked
    assert then.tiers["standard"] > then.tiers["high"]
