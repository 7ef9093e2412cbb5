"""A tier's item part over many requests, on an engine of free shapes and on one of fixed shapes."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.tiny_release import tiny_recipe, tiny_scores
from triton_ads.serving import counters as count
from triton_ads.serving.counters import Counters
from triton_ads.serving.engines import OnnxEngine
from triton_ads.serving.mixed_batch import TierScorer
from triton_ads.serving.tier_encoder import TierEncoder
from triton_ads.serving.users import UserRow

RECIPE = tiny_recipe(max_batch_requests=6)  # tiles of 8 in buckets of 1, 2 and 4
SIZES = {"standard": 5, "high": 9}
TOLERANCE = 1e-6  # float32, sums in another order


class Recording(OnnxEngine):
    """Notes the shapes that it is run with."""

    def __init__(self, path):
        super().__init__(path)
        self.shapes = set()

    def run(self, inputs, output):
        self.shapes.add((*inputs["item_ids"].shape[:2], len(inputs["state"])) if "state" in inputs else len(output))
        super().run(inputs, output)


class FixedShapes(Recording):
    """As an engine of CUDA graphs: what was not there in the warm-up cannot be run."""

    padded = True

    def __init__(self, path):
        super().__init__(path)
        self.captured = None

    def run(self, inputs, output):
        super().run(inputs, output)
        assert self.captured is None or self.shapes <= self.captured


def users(n, seed=0):
    rng = np.random.default_rng(seed)
    return [
        UserRow(
            rng.integers(-2, 30, (1, 4)),
            rng.normal(size=(1, 3)).astype(np.float32),
            rng.integers(0, 9, (1, 11)),
        )
        for _ in range(n)
    ]


def candidates(lengths, seed=1):
    rng = np.random.default_rng(seed)
    total = sum(lengths)
    return rng.integers(-2, 70, (total, 4)), rng.normal(size=(total, 1)).astype(np.float32)


@pytest.fixture(params=[Recording, FixedShapes], ids=["free shapes", "fixed shapes"])
def engine_class(request):
    return request.param


@pytest.fixture(params=SIZES)
def parts(request, engine_class, release_folder):
    """Encoder and scorer of a tier, warmed up, with their engines."""
    tier, counters = request.param, Counters()
    user, item = (engine_class(release_folder / "tiers" / tier / f"{side}.onnx") for side in ("user", "item"))
    encoder = TierEncoder(tier, user, RECIPE, SIZES[tier], counters)
    scorer = TierScorer(tier, item, RECIPE, SIZES[tier], counters)
    encoder.warm_up()
    scorer.warm_up()
    counters.drain()
    user.captured, item.captured = set(user.shapes), set(item.shapes)
    return tier, encoder, scorer, counters


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lengths=st.lists(st.integers(1, 90), min_size=1, max_size=6))
def test_scores_are_those_of_each_candidate_alone(parts, lengths):
    tier, encoder, scorer, _ = parts
    asked = users(len(lengths))
    states_BZ = encoder.encode(asked)
    ids_MF, dense_MD = candidates(lengths)
    scores_MK = scorer.score(states_BZ, lengths, ids_MF, dense_MD)
    end = 0
    for request, length in zip(asked, lengths, strict=True):
        start, end = end, end + length
        of_user = (request.rows_1F[0], request.floats_1D[0], request.sequences_1L[0])
        expected_NK = tiny_scores(RECIPE, tier, *of_user, ids_MF[start:end], dense_MD[start:end])
        np.testing.assert_allclose(scores_MK[start:end], expected_NK, rtol=0, atol=TOLERANCE)


def test_nothing_of_an_earlier_batch_is_left(parts):
    _, encoder, scorer, _ = parts
    states = encoder.encode(users(2)).copy()
    small = candidates([3, 2])
    before = scorer.score(states, [3, 2], *small)
    scorer.score(encoder.encode(users(6, seed=5)), [30] * 6, *candidates([30] * 6, seed=6))
    np.testing.assert_array_equal(scorer.score(states, [3, 2], *small), before)


def test_the_warm_up_runs_every_bucket(parts, engine_class):
    _, encoder, scorer, _ = parts
    assert encoder._engine.shapes == {1, 2, 4, 6}
    tiles = {(tiles, size) for tiles, size, _ in scorer._engine.shapes}
    assert tiles == {(1, 8), (2, 8), (4, 8)}
    assert {users for _, _, users in scorer._engine.shapes} == ({6} if engine_class.padded else {1})


def test_only_fixed_shapes_are_padded(parts, engine_class):
    """17 and 3 candidates: 3 + 1 tiles of 8 = 4 tiles, of 32 rows; 5 candidates alone: a bucket of 1 either way."""
    tier, encoder, scorer, counters = parts
    states = encoder.encode(users(2)).copy()
    counters.drain()
    for lengths, filled, hit in (([17, 3], 32, "4"), ([10], 16, "2"), ([3, 2, 1], 24, "4")):
        scorer.score(np.tile(states, (2, 1))[: len(lengths)], lengths, *candidates(lengths))
        counted = counters.drain()
        assert counted[count.SLOTS, (tier,)] == (int(hit) * 8 if engine_class.padded else filled)
        assert counted[count.CANDIDATES, (tier,)] == sum(lengths)
        assert counted[count.BUCKET_HITS, (tier, hit)] == 1


@pytest.mark.parametrize(("most_rows", "largest"), [(1, 8), (16, 16), (20, 16), (384, 32)])
def test_runs_are_as_long_as_the_engine_likes_and_still_the_same(release_folder, most_rows, largest):
    """Tiles of 8, at least one a run; the largest bucket holds 4 of them."""
    engine, counters = Recording(release_folder / "tiers" / "standard" / "item.onnx"), Counters()
    scorer = TierScorer("standard", engine, RECIPE, SIZES["standard"], counters)
    states_BZ = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    lengths, (ids_MF, dense_MD) = [9, 14, 1], candidates([9, 14, 1])
    expected_MK = scorer.score(states_BZ, lengths, ids_MF, dense_MD)
    engine.shapes.clear()
    engine.most_rows = most_rows
    counters.drain()
    scores_MK = scorer.score(states_BZ, lengths, ids_MF, dense_MD)
    np.testing.assert_allclose(scores_MK, expected_MK, rtol=0, atol=TOLERANCE)
    assert max(tiles * size for tiles, size, _ in engine.shapes) == largest
    counted = counters.drain()
    assert counted[count.CANDIDATES, ("standard",)] == 24
    assert counted[count.BUCKET_MISSES, ("standard", "over_largest")] == 1  # 5 tiles, whatever the runs


@pytest.mark.parametrize("largest", [1, 2, 5, 64])
def test_the_encoder_s_batches_are_powers_of_two_up_to_the_largest(release_folder, largest):
    recipe = tiny_recipe(max_batch_requests=largest)
    engine = Recording(release_folder / "tiers" / "standard" / "user.onnx")
    TierEncoder("standard", engine, recipe, 5, Counters()).warm_up()
    assert sorted(engine.shapes) == sorted({*[n for n in (1, 2, 4, 8, 16, 32) if n < largest], largest})
