"""A build of two Wukong tiers that read their histories, and a learned router: what was trained is what is served."""

import json
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.support.builds import build_once
from tests.support.chain import Chain
from triton_ads.client.request import rank_inputs
from triton_ads.data import Examples
from triton_ads.features.ids import PAD
from triton_ads.features.vocabulary import Tables
from triton_ads.manifest import Manifest
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe, load_recipe
from triton_ads.routing.gain import GainModel
from triton_ads.routing.journey import JourneyFeatures
from triton_ads.serving.release import Release
from triton_ads.serving.router_gain import GainRouter
from triton_ads.serving.store import ItemStore, UserStore
from triton_ads.training.calibrate import calibrated_ranker
from triton_ads.training.gain import Requests
from triton_ads.training.routing_curve import SHARES

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "recipes" / "tiny_adaptive.yaml"


@pytest.fixture(scope="module")
def adaptive() -> Recipe:
    return load_recipe(FILE)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Layout:
    """Every stage of the recipe, run once; read only."""
    return build_once(FILE, tmp_path_factory)


@pytest.fixture(scope="module")
def chain(built: Layout) -> Iterator[Chain]:
    running = Chain(built.release)
    yield running
    running.close()


def test_the_release_has_the_router(built: Layout) -> None:
    manifest = Manifest.load(built.release)
    assert (built.release / "router" / "gain.json").read_bytes() == (built.work("router") / "gain.json").read_bytes()
    assert manifest.router is not None
    assert manifest.router.model_dump() == json.loads((built.work("router") / "router.json").read_text())
    assert min(manifest.router.requests.values()) > 1000
    assert manifest.tiers["high"].flops_item > 4 * manifest.tiers["standard"].flops_item


def test_the_curves_start_and_end_with_the_tiers(built: Layout) -> None:
    """Whoever chooses: no budget is the standard tier's quality on the test part, a full one the high tier's."""
    curves = json.loads((built.work("router") / "curves.json").read_text())
    assert list(curves) == ["learned", "random", "length"]
    for points in curves.values():
        assert [point["share"] for point in points] == list(SHARES)
        for point, tier in ((points[0], "standard"), (points[-1], "high")):
            quality = json.loads((built.work("calibrate", tier) / "quality.json").read_text())
            assert point["auc"] == pytest.approx([quality[label]["auc"] for label in ("cvr", "dcvr")], abs=1e-9)
            assert point["log_loss"] == pytest.approx(sum(q["log_loss"] for q in quality.values()), abs=1e-9)
        flops = [point["flops"] for point in points]
        assert flops == sorted(flops)


@pytest.mark.parametrize("tier", ["standard", "high"])
def test_the_server_answers_as_the_trained_model(built: Layout, adaptive: Recipe, chain: Chain, tier: str) -> None:
    """Users with a full, a short and no history, 40 films each, and one whom nobody knows."""
    model = calibrated_ranker(
        adaptive,
        tier,
        built.work("data"),
        built.work("train", tier) / "checkpoint.pt",
        built.work("calibrate", tier) / "maps.json",
    )
    users = UserStore(built.release / "store" / "users", adaptive)
    items = ItemStore(built.release / "store" / "items", adaptive)
    by_history = np.argsort(users.history_n, kind="stable")
    films = items.ids[:40]
    for position in (by_history[0], by_history[len(by_history) // 2], by_history[-1], None):
        tensors = rank_inputs(films, user_id=-5 if position is None else int(users.ids[position]), tier=tier)
        answer, user = chain.one(tensors), chain.router.parse(tensors).user
        inputs = {
            "user_ids": torch.from_numpy(user.rows_1F).expand(40, -1),
            "user_dense": torch.from_numpy(user.floats_1D).expand(40, -1),
            "sequence_ids": torch.from_numpy(user.sequences_1L).expand(40, -1),
            "item_ids": torch.from_numpy(items.rows_nF[:40].astype(np.int64)),
            "item_dense": torch.from_numpy(items.dense_nD[:40].copy()),
        }
        with torch.no_grad():
            expected = torch.sigmoid(model(**inputs)).numpy()
        found = answer["scores"][0][np.argsort(answer["positions"][0])]
        np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)  # the build's own bound
        assert np.ptp(expected) > 1e-4


def as_sent(recipe: Recipe, tables: Tables, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The request of one example: raw ids instead of rows; what training did not know is sent as an id of nobody's."""

    def raw(table: str, row: int) -> int:
        found = tables.raw(table, int(row))
        return found if found is not None else -1 if row == PAD else -99

    columns = recipe.id_columns("user", "context")
    users = len(recipe.id_columns("user"))
    ids = [raw(str(column.table), row) for column, row in zip(columns, inputs["user_ids"][0], strict=True)]
    rows, sequences = list(inputs["sequence_ids"][0]), []
    for sequence in recipe.sequences:
        events = [[rows.pop(0) for _ in sequence.fields] for _ in range(sequence.length)]
        sequences.append(
            [
                [raw(f.table, row) for f, row in zip(sequence.fields, event, strict=True)]
                for event in events
                if any(event)
            ]
        )
    return rank_inputs(
        [1, 2, 3],
        user_features=ids[:users],
        context_features=ids[users:],
        user_dense=inputs["user_dense"][0],
        sequences=sequences,
    )


def test_the_router_expects_of_a_request_what_training_expected_of_its_examples(
    built: Layout, adaptive: Recipe, chain: Chain
) -> None:
    """Test requests as a client would send them, in raw ids."""
    examples = Examples.load(adaptive, built.work("data") / "examples")
    release = Release.open(built.release)
    tables = release.tables()
    features = JourneyFeatures(adaptive, tables.table_rows)
    model = GainModel.load(built.release / "router" / "gain.json", features.names)
    requests = Requests.of(examples, "test")
    offline_R = model(requests.features(examples, features))
    chosen = np.arange(0, len(requests.first_R), len(requests.first_R) // 40)
    assert offline_R[chosen].std() > 1e-4

    sent = [as_sent(adaptive, tables, examples.batch(requests.first_R[[r]]).inputs) for r in chosen]
    users = [chain.router.parse(tensors).user for tensors in sent]
    found = GainRouter(release, tables, time.monotonic).gains(users)
    np.testing.assert_allclose(found, offline_R[chosen], atol=1e-6, rtol=1e-5)  # float32 sums


def test_every_choice_is_the_models(built: Layout, chain: Chain) -> None:
    users = np.load(built.release / "store" / "users" / "ids.npy")[::50]
    reasons = {chain.one(rank_inputs([1, 2, 3], user_id=int(user)))["reason"][0, 0] for user in users}
    assert reasons <= {b"predicted_gain", b"low_gain", b"budget"}
    assert reasons
