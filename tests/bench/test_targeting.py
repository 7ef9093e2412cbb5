"""The benchmark's parts at sizes of a test; its whole run trains for minutes and is not one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.support.threads import one_thread
from tests.support.tiny_target import target_recipe, write_target_release
from triton_ads.bench.report import Report
from triton_ads.bench.targeting_models import DENSE, INT4, MIX, SPARSE, Lesson, generators, windows
from triton_ads.bench.targeting_report import VERIFIED, Figures, add_claims, add_rows
from triton_ads.bench.targeting_search import Kind, searching
from triton_ads.bench.timing import Timings
from triton_ads.compression.packed_model import read_packed_model
from triton_ads.compression.patterns import Pattern
from triton_ads.features.prompt import QUERY, PromptFormat, vocabulary_of
from triton_ads.recipe.target import Generator, GeneratorTraining
from triton_ads.serving.decoder import Decoder
from triton_ads.serving.release import Release
from triton_ads.serving.target.ads import AdSearch, Asked
from triton_ads.serving.target_release import open_prompts, open_tree
from triton_ads.targeting.examples import ExampleMaker

__all__ = ["one_thread"]

TEXTS = [f"{word} film" for word in ("space", "garden", "horse", "war", "love", "night")]
FORM = PromptFormat(vocabulary_of(TEXTS), events=2, query_words=2)
FIRST = FORM.vocabulary.first_identifier
MAKER = ExampleMaker(FORM, [[FIRST + ad // 2, FIRST + 3 + ad % 2] for ad in range(6)], TEXTS, query_share=0.5)
JOURNEYS = [[(user + step) % 6 for step in range(4)] for user in range(10)]
LESSON = Lesson(MAKER, JOURNEYS, FIRST + 5, FORM.longest(2), (3, 2), "0" * 64)


def test_windows_are_of_one_length_and_without_queries() -> None:
    found = windows(MAKER, JOURNEYS, seed=0)
    assert found.shape[1] == len(FORM.prompt([])) + 3 * 2 and len(found) > 10
    assert not (found == QUERY).any() and np.array_equal(found, windows(MAKER, JOURNEYS, seed=0))


def test_contenders_of_a_seed_are_trained_once(tmp_path: Path) -> None:
    target = target_recipe().target
    assert target is not None
    small = target.model_copy(
        update={
            "model": Generator(layers=2, width=64, heads=2, kv_heads=1, feed_forward=64),
            "training": GeneratorTraining(epochs=1, batch_size=16),
        }
    )
    first = generators(LESSON, small, 0, 1, tmp_path)
    written = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    again = generators(LESSON, small, 0, 1, tmp_path)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == written
    assert list(first) == [DENSE, INT4, SPARSE, MIX]
    for name, model in first.items():
        assert all(np.array_equal(one.tiles, again[name].matrices[at].tiles) for at, one in model.matrices.items())
        assert model.matrices["lm_head"].pattern is Pattern.DENSE
    kept = {name: {one.pattern for at, one in m.matrices.items() if at != "lm_head"} for name, m in first.items()}
    assert kept[DENSE] == kept[INT4] == {Pattern.DENSE} and kept[SPARSE] == {Pattern.TWO_OF_FOUR}
    assert Pattern.ONE_OF_FOUR in kept[MIX] and first[MIX].weight_bytes < first[SPARSE].weight_bytes
    other = generators(LESSON, small, 1, 0, tmp_path)[DENSE]
    assert not np.array_equal(other.embeddings_VD, first[DENSE].embeddings_VD)


@pytest.mark.parametrize("kind", ["steps", "beam", "exact", "global"])
def test_searches_are_those_that_are_served(tmp_path: Path, kind: Kind) -> None:
    mode = "beam" if kind == "steps" else kind
    release = Release.open(write_target_release(tmp_path / "release", target_recipe(mode=mode)))
    tree, form, target = open_tree(release), open_prompts(release), release.recipe.target
    assert target is not None
    model = read_packed_model(release.folder / "target" / "model")
    longest = form.longest(tree.length) - tree.length
    answer = searching(tree, model, longest, target, kind)
    served = AdSearch(tree, Decoder(model), form, target)
    identifiers = tree.identifiers()
    for asked in ([], identifiers[:2], identifiers[5:8]):
        one = Asked(form.prompt(asked, "space"), np.array([1003, 1004]), 6)
        (request,), _ = served.run([one])
        assert request.found is not None
        found = answer(one)
        # In mode exact the level at which it verifies, and with it the answer, depends on what was calibrated.
        if kind != "exact":
            assert found.tolist() == tree.ad_of(request.found.node_B).tolist()
        assert len(set(found.tolist())) == 6 and not set(found.tolist()) & {1003, 1004}


def test_claims_are_about_shares_of_the_same_seed() -> None:
    """Seeds of 0.1 and 0.2; INT4 keeps 0.9 and 1.0 of them: 0.95 in the mean, though 0.29 / 0.3 is more."""

    def measures(recall: float) -> dict[str, float]:
        return {"recall@10": recall / 2, "ndcg@10": recall / 4, "recall@20": recall, "ndcg@20": recall / 3}

    recalls = {DENSE: (0.1, 0.2), INT4: (0.09, 0.2), SPARSE: (0.1, 0.2), VERIFIED: (0.097, 0.194)}
    ms = {DENSE: [200.0, 300, 400], INT4: [100.0, 100, 100], SPARSE: [100.0, 100, 100], VERIFIED: [50.0, 150, 200]}
    timings = Timings({name: np.array(values) for name, values in ms.items()})
    figures = Figures({name: [measures(one) for one in both] for name, both in recalls.items()}, {}, [timings, timings])
    report = Report("x")
    add_rows(report, figures, burst=50)
    add_claims(report, figures)
    assert [round(claim.value, 6) for claim in report.claims] == [0.95, 1.0, 0.97, 2.0]
    assert [claim.holds for claim in report.claims] == [False, True, True, True]
    rows = {(row.name, row.contender, row.metric): row.value for row in report.rows}
    assert rows[DENSE, "a request", "median"] == 6.0  # 300 ms for 50
    assert rows[INT4, "worst seed", "recall@20 / dense"] == pytest.approx(0.9)
    assert rows[VERIFIED, "the paper", "recall"] == 0.081
    assert replace(timings).ratio(DENSE, INT4) == rows[INT4, "a request", f"times as fast as {DENSE}"] == 3.0
