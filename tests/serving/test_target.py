"""Generated ads: the services of `target`, one after the other, against the plain reference of model and tree."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.chain import LocalCall
from tests.support.tiny_release import ITEMS, seal
from tests.support.tiny_target import JOURNEYS, MET, WORDS, Exhaustive, target_recipe, write_target_release
from triton_ads.client.target import target_inputs
from triton_ads.compression.packed_model import read_packed_model, write_packed_model
from triton_ads.features.prompt import FIRST_WORD
from triton_ads.manifest import Manifest, ManifestError
from triton_ads.serving import counters as count
from triton_ads.serving.blocked_ads import BlockedAds, changing, read_blocked, write_blocked
from triton_ads.serving.counters import Counters
from triton_ads.serving.dispatch import Dispatcher
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.generator_model import GeneratorService
from triton_ads.serving.release import Release
from triton_ads.serving.service import now_us
from triton_ads.serving.target.ads import Asked, SearchError
from triton_ads.serving.verifier_model import VerifierService
from triton_ads.trie import TreeError, build_tree, load_tree, save_tree

MODES = ("beam", "exact", "global")


class Chain:
    """Both services behind their dispatchers."""

    def __init__(self, folder: Path, now: Any = now_us) -> None:
        release = Release.open(folder)
        self.counters = Counters()
        self.generator, self.verifier = GeneratorService(release, self.counters, now), VerifierService(release)
        self._steps = [Dispatcher(s, self.counters, 64, now) for s in (self.generator, self.verifier)]

    def ask(self, *batch: dict[str, Any]) -> list[Any]:
        """Outputs of every request, or its error."""
        known: list[Any] = [dict(target_inputs(**one)) for one in batch]
        for step in self._steps:
            calls = {i: LocalCall(one) for i, one in enumerate(known) if not isinstance(one, RequestError)}
            step.execute(list(calls.values()))
            for i, call in calls.items():
                known[i] = call.wait()
        return known

    def one(self, **asked: Any) -> tuple[list[int], list[float]]:
        (answer,) = self.ask(asked)
        if isinstance(answer, RequestError):
            raise answer
        return answer["target_ids"][0].tolist(), answer["target_scores"][0].tolist()

    def close(self) -> None:
        for step in self._steps:
            step.stop()


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("target")
    return {mode: write_target_release(folder / mode, target_recipe(mode=mode)) for mode in MODES}


@pytest.fixture(scope="module", params=MODES)
def chain(request: pytest.FixtureRequest, releases: dict[str, Path]) -> Iterator[Chain]:
    chain = Chain(releases[request.param])
    yield chain
    chain.close()


@pytest.fixture(scope="module")
def exhaustive(releases: dict[str, Path]) -> Exhaustive:
    return Exhaustive(releases["global"])


@pytest.mark.parametrize(
    ("asked", "journey", "withheld"),
    [
        ({"user_id": 100}, JOURNEYS[100], MET[100]),
        ({"user_id": 100, "exclude": [1005, 1006, 77]}, JOURNEYS[100], [*MET[100], 1005, 1006]),
        ({"user_id": 101, "query": "Space drama"}, JOURNEYS[101], MET[101]),
        ({"query": "a comedy"}, [], []),
        ({}, [], []),
        ({"user_id": 4711}, [], []),
        ({"user_id": 103}, [], MET[103]),
        ({"journey": [1050, 1051]}, [1051, 1050], [1050, 1051]),  # most recent first on the wire
        ({"user_id": 102, "journey": [1007]}, [1007], [*MET[102], 1007]),
        ({"journey": [9, 1044, 1043, 1042, 1041]}, [1042, 1043, 1044], [1041, 1042, 1043, 1044]),
    ],
)
def test_the_best_of_all_ads(
    releases: dict[str, Path],
    exhaustive: Exhaustive,
    asked: dict[str, Any],
    journey: list[int],
    withheld: list[int],
) -> None:
    chain = Chain(releases["global"])
    scores = exhaustive.scores(journey, asked.get("query", ""))
    left = sorted((ad for ad in ITEMS if ad not in withheld), key=lambda ad: -scores[ad])
    ids, found = chain.one(**asked)
    chain.close()
    # 0.05 of some 40: activations and the cache have 16 bits; ads of nearly equal scores may change places.
    np.testing.assert_allclose(found, [scores[ad] for ad in left[:6]], atol=0.05)
    np.testing.assert_allclose([scores[ad] for ad in ids], found, atol=0.05)
    assert len(set(ids)) == 6 and not set(ids) & set(withheld)


def test_what_the_search_finds_is_what_the_verifier_selects(chain: Chain) -> None:
    for asked in ({"user_id": 100}, {"query": "space"}, {"user_id": 102, "top": 9}):
        request = chain.generator.parse(target_inputs(**asked))
        one = Asked(request.prompt.tokens_P, request.prompt.withheld_N, request.plan.top)
        (alone,), _ = chain.generator._search.run([one])
        ids, scores = chain.one(**asked)
        assert ids == chain.verifier._tree.ad_of(alone.found.node_B).tolist()[: request.plan.top]
        np.testing.assert_array_equal(scores, alone.found.score_B[: request.plan.top].astype(np.float32))


def test_together_as_alone(chain: Chain) -> None:
    batch: list[dict[str, Any]] = [
        {"user_id": 100 + i % 5, "top": 1 + i, "query": "space" * (i % 2)} for i in range(16)
    ]
    alone = [chain.one(**asked) for asked in batch]
    together = [(one["target_ids"][0].tolist(), one["target_scores"][0].tolist()) for one in chain.ask(*batch)]
    assert together == alone
    assert [len(ids) for ids, _ in alone] == list(range(1, 17))


def test_more_than_there_are_is_all_that_there_are(chain: Chain) -> None:
    ids, scores = chain.one(user_id=100, top=70)
    assert sorted(ids) == sorted(set(ITEMS) - set(MET[100]))
    assert scores == sorted(scores, reverse=True)
    assert chain.one(exclude=ITEMS) == ([], [])


def test_what_cannot_be_is_refused_and_its_neighbours_are_answered(chain: Chain) -> None:
    good, high, low, long = chain.ask({"user_id": 100}, {"top": 71}, {"top": -1}, {"query": "x" * 1001})
    assert good["target_ids"][0].tolist() == chain.one(user_id=100)[0]
    assert [one.cause for one in (high, low, long)] == [Cause.OUT_OF_RANGE, Cause.OUT_OF_RANGE, Cause.WRONG_LENGTH]
    assert str(high) == "top: 71 found, 0 to 70 allowed (target.max_top)"


def test_counts(releases: dict[str, Path]) -> None:
    chain = Chain(releases["beam"])
    chain.counters.drain()
    chain.one(user_id=100, query="space unheard of")
    chain.one(journey=[1000, 5, 1001, 1002, 1003])
    chain.one()
    counted = chain.counters.drain()
    assert counted[count.OOV, ("query",)] == 2 and counted[count.OOV, ("journey",)] == 1
    assert counted[count.TRUNCATED, ()] == 1 and counted[count.COLD_STARTS, ()] == 1
    levels = {labels[0]: amount for (metric, labels), amount in counted.items() if metric == count.SEARCHES}
    assert sum(levels.values()) == 3
    forwards, tokens = counted[count.SEARCH_FORWARDS, ()], counted[count.SEARCH_TOKENS, ()]
    saved = counted.get((count.STEPS_SAVED, ()), 0)
    assert forwards + saved == 3 * 2 and tokens >= counted.get((count.VERIFIED_TOKENS, ()), 0)
    assert counted[count.SEARCH_SECONDS, ()] > 0 and counted[count.PREDICTED_SECONDS, ()] > 0
    chain.close()


def test_a_deadline_that_passes_between_steps_stops_that_search_alone(releases: dict[str, Path]) -> None:
    now = [0]

    def clock() -> int:
        now[0] += 1000
        return now[0]

    chain = Chain(releases["beam"], clock)
    (alone,) = chain.ask({"user_id": 100, "deadline_us": 10**12})
    for allowed_ms in range(1, 40):
        late, good = chain.ask({"deadline_us": now[0] + allowed_ms * 1000}, {"user_id": 100, "deadline_us": 10**12})
        assert not isinstance(good, RequestError)
        # What runs beside it, and is left when it stops, is answered as alone.
        assert good["target_ids"].tolist() == alone["target_ids"].tolist()
        assert good["target_scores"].tolist() == alone["target_scores"].tolist()
        if not isinstance(late, RequestError):
            break
        assert late.cause == Cause.DEADLINE
    assert allowed_ms > 3  # it was stopped at parsing, then between one step and the next
    chain.close()


def test_nodes_that_nobody_may_answer_are_left_out(chain: Chain) -> None:
    """Whoever sent them."""
    tree, number = chain.verifier._tree, chain.verifier._release.number
    leaf, _ = tree.leaves_of(np.array([1000, 1001, 1002]))
    sent = {
        "nodes": np.array([[*leaf, 0, tree.nodes + 5]], np.int32),
        "parents": np.full((1, 5), -1, np.int32),
        "log_probabilities": np.array([[-3.0, -1, -2, 0, 0]]),
        "withheld": np.array([[1001]]),
        "plan": np.array([[5, 10**18, number]]),
    }
    answer = chain.verifier.answer([chain.verifier.parse(sent)])[0]
    assert answer["target_ids"].tolist() == [[1002, 1000]] and answer["target_scores"].tolist() == [[-2.0, -3.0]]
    with pytest.raises(RequestError, match="parents: 7 found"):
        chain.verifier.parse(sent | {"parents": np.array([[-1, -1, -1, 0, 7]], np.int32)})
    with pytest.raises(RequestError, match="of release 000000000001"):
        chain.verifier.parse(sent | {"plan": np.array([[5, 10**18, 1]])})
    with pytest.raises(RequestError, match="log_probabilities: nan found at position 2, finite values allowed"):
        chain.verifier.parse(sent | {"log_probabilities": np.array([[-3, -1, np.nan, 0, 0]])})


def test_a_blocked_ad_is_not_answered_even_if_the_generator_did_not_know(tmp_path: Path) -> None:
    folder = write_target_release(tmp_path / "release")
    chain = Chain(folder)
    first = chain.one(user_id=100)[0][0]
    request = chain.generator.parse(dict(target_inputs(100)))
    (scored,) = chain.generator.answer([request])
    assert isinstance(scored, dict)
    file = tmp_path / "tiny.blocked"
    write_blocked(file, [first, 5])
    (answer,) = chain.verifier.answer([chain.verifier.parse(scored)])
    assert isinstance(answer, dict) and first not in answer["target_ids"][0].tolist()
    assert first not in chain.one(user_id=100)[0]
    file.write_text("no number\n")  # a broken file changes nothing
    assert first not in chain.one(user_id=100)[0]
    file.unlink()
    assert chain.one(user_id=100)[0][0] == first
    chain.close()
    file.write_text("no number\n")
    with pytest.raises(ValueError, match="one raw id a line"):
        VerifierService(Release.open(folder))
    file.write_bytes(b"\xff\n")
    with pytest.raises(ValueError, match=r"tiny.blocked: one raw id a line .*can't decode"):
        VerifierService(Release.open(folder))


def test_a_blocked_file_that_cannot_be_read_for_a_moment_is_read_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time and size stay as they are, so that nothing says that it must be read again."""
    folder = write_target_release(tmp_path / "release")
    blocked = BlockedAds(Release.open(folder), load_tree(folder / "target" / "tree"))
    file = tmp_path / "tiny.blocked"
    write_blocked(file, [1003])
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", lambda *_: (_ for _ in ()).throw(OSError(24, "Too many open files")))
        assert blocked.now().ads == set()
    assert blocked.now().ads == {1003}
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_text", lambda *_: (_ for _ in ()).throw(OSError(24, "Too many open files")))
        write_blocked(file, [1004])
        assert blocked.now().ads == {1003}
    assert blocked.now().ads == {1004}


def test_ads_blocked_by_many_at_once_are_all_blocked(tmp_path: Path) -> None:
    file = tmp_path / "tiny.blocked"

    def block(ad: int) -> None:
        with changing(file):
            write_blocked(file, [*read_blocked(file).tolist(), ad])

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(block, range(100)))
    assert read_blocked(file).tolist() == list(range(100))


@pytest.mark.parametrize("mode", MODES)
def test_weights_that_give_no_number_are_an_error_of_the_requests_that_meet_them(tmp_path: Path, mode: str) -> None:
    folder = write_target_release(tmp_path / "release", target_recipe(mode=mode))
    whole = Chain(folder)
    expected = whole.one(query="drama")
    whole.close()
    manifest, model = Manifest.load(folder), read_packed_model(folder / "target" / "model")
    embeddings_VD = model.embeddings_VD.copy()
    embeddings_VD[FIRST_WORD + WORDS.index("space")] = 0x7FC0  # NaN, in BF16
    write_packed_model(folder / "target" / "model", replace(model, embeddings_VD=embeddings_VD))
    seal(folder, manifest.recipe, manifest.target)
    chain = Chain(folder)
    bad, all_, good = chain.ask({"query": "space"}, {"query": "space", "top": 70}, {"query": "drama"})
    for error in (bad, all_):
        assert isinstance(error, RequestError) and error.cause == Cause.INTERNAL
        assert "log-probabilities: nan found, finite values needed" in str(error)
    assert (good["target_ids"][0].tolist(), good["target_scores"][0].tolist()) == expected
    chain.close()


def test_a_tree_that_is_not_the_models_is_refused(tmp_path: Path) -> None:
    folder = write_target_release(tmp_path / "release")
    manifest = Manifest.load(folder)
    save_tree(build_tree([[8], [9]], [1000, 1001]), folder / "target" / "tree")
    seal(folder, manifest.recipe, manifest.target)  # whole, but made of parts of two
    with pytest.raises(TreeError, match="the tree is of catalogue"):
        GeneratorService(Release.open(folder), Counters())
    with pytest.raises(TreeError, match="the tree is of catalogue"):
        VerifierService(Release.open(folder))


@pytest.mark.parametrize(
    ("part", "content", "message"),
    [
        ("words.json", ["comedy"], "1 words found, the model was trained with 3"),
        ("words.json", ["comedy", "space", "drama"], "a list of words is needed, sorted, each once"),
        ("words.json", ["comedy", "drama", None], "a list of words is needed"),
        ("words.json", None, "a list of words is needed"),
    ],
)
def test_words_that_are_not_the_models_are_refused(tmp_path: Path, part: str, content: Any, message: str) -> None:
    folder = write_target_release(tmp_path / "release")
    manifest = Manifest.load(folder)
    (folder / "target" / part).write_text(json.dumps(content))
    seal(folder, manifest.recipe, manifest.target)
    with pytest.raises(ManifestError, match=message):
        GeneratorService(Release.open(folder), Counters())


def test_limits_without_room_for_a_search_are_refused(tmp_path: Path) -> None:
    folder = write_target_release(tmp_path / "release", target_recipe(mode="global", max_nodes=10))
    with pytest.raises(
        SearchError, match=r"target.max_nodes: 10 found, a search of this tree in mode global may run 25"
    ):
        GeneratorService(Release.open(folder), Counters())


def test_a_release_without_a_target_has_no_generator(tmp_path: Path) -> None:
    folder = write_target_release(tmp_path / "release")
    seal(folder, target_recipe())  # the manifest forgets what the recipe has
    with pytest.raises(ManifestError, match="do not agree"):
        Release.open(folder)
