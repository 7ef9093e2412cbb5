"""The naive model by itself under load: what `triton-ads loadtest --naive` compares with."""

import pytest

from tests.support.trained_build import TIER
from triton_ads.bench.serving_contender import Ask
from triton_ads.bench.serving_naive import MODEL, naive_server
from triton_ads.loadtest.observe import Observer
from triton_ads.loadtest.requests import Prepared, write_requests
from triton_ads.loadtest.run import Trial
from triton_ads.loadtest.schedule import Schedule
from triton_ads.loadtest.traffic import Traffic
from triton_ads.server.ports import HOST


@pytest.mark.server
def test_the_naive_model_goes_through_the_same_load(layout, tmp_path):
    release = layout.release.resolve()
    traffic = Traffic.of_release(release, max_candidates=1000)
    said = []
    with naive_server(layout, release, TIER, 1000, instances=2) as (contender, server):
        asks = [Ask(int(traffic.users[i % 3]), traffic.items[: 5 + i]) for i in range(8)]
        requests = [Prepared(contender.request(ask), candidates=len(ask.candidates_N)) for ask in asks]
        write_requests(requests, tmp_path / "requests")
        observer = Observer(f"{HOST}:{server.port}", MODEL)
        # A deadline that any machine meets: this test is of the way, not of the speed.
        # Usage is sampled every second, and two samples must fall into what is held.
        trial = Trial("naive", "any", server, tmp_path / "requests", observer, 20_000.0, True, said.append)
        found = trial.run(Schedule(total_s=7.0, warm_up_s=0.2, step_s=0.2, rising_s=0.1, chunk_s=0.3))
    assert found.held is not None, said
    assert found.held.cost is not None
    assert found.held.cost.core_s > 0
    assert 5 <= found.held.cost.candidates / found.held.cost.requests <= 12
    assert [(model.model, model.requests > 0) for model in found.held.models] == [(MODEL, True)]
    (check,) = found.checks
    assert (check.what, check.difference) == ("requests, Triton's statistics", 0.0)
    assert len([name for name in found.held.usage[0].cores if name == MODEL]) == 1
    assert found.not_measured == ["tiers and tile fill: no metrics page was given, or it names no model that was asked"]
