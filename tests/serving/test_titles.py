"""Ads as titles: both services of `target` against every title scored by the plain reference of the model."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.random_llama import EXACT, config_of, random_checkpoint
from tests.support.tiny_release import ITEMS
from tests.support.tiny_target import JOURNEYS, MET, Exhaustive, target_recipe, write_parts
from tests.support.titles import TOKENS, text_tokenizer
from triton_ads.client.target import target_inputs
from triton_ads.compression.pack_model import pack_model
from triton_ads.features.text_prompt import TextPromptFormat
from triton_ads.recipe.target import PromptText
from triton_ads.serving.counters import Counters
from triton_ads.serving.generator_model import GeneratorService
from triton_ads.serving.release import Release
from triton_ads.serving.target.ads import SearchError
from triton_ads.serving.verifier_model import VerifierService
from triton_ads.targeting.titles import encoder, title_tree

TOKENIZER = text_tokenizer().to_str()
TEXT = {"journey": "seen:\n", "query": "about {query}:\n"}
#: Of 1 to 8 letters, many with a common beginning, some equal, one the beginning of others.
TITLES = ["ab", "ab", "abba", "abba b", "ab a", "c", "ca", "cab", *("c" * (1 + i % 3) + "ab"[i % 2] for i in range(52))]


def recipe_of(**target: Any) -> Any:
    fields = {"identifiers": {"of": "titles"}, "model": {"checkpoint": "model"}, "weights": "bf16", "text": TEXT}
    return target_recipe(**{**fields, "query_words": 8, "max_nodes": 400, **target})


def write_titles_release(folder: Path, positions: int = 256, tokens: int = len(TOKENS), **target: Any) -> Path:
    checkpoint = random_checkpoint(config_of(vocabulary=tokens, positions=positions))
    model = pack_model(dataclasses.replace(checkpoint, tokenizer=TOKENIZER), lambda name: EXACT)
    return write_parts(folder, recipe_of(**target), title_tree(TITLES, ITEMS, TOKENIZER), (), model)


class Chain:
    """Generator, then verifier."""

    def __init__(self, release: Path) -> None:
        self.generator = GeneratorService(Release.open(release), Counters())
        self._verifier = VerifierService(Release.open(release))

    def __call__(self, **asked: Any) -> tuple[list[int], list[float]]:
        (scored,) = self.generator.answer([self.generator.parse(dict(target_inputs(**asked)))])
        assert isinstance(scored, dict)
        (answer,) = self._verifier.answer([self._verifier.parse(scored)])
        assert isinstance(answer, dict)
        return answer["target_ids"][0].tolist(), answer["target_scores"][0].tolist()


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("titles")
    return {mode: write_titles_release(folder / mode, mode=mode) for mode in ("beam", "exact", "global")}


@pytest.fixture(scope="module")
def exhaustive(releases: dict[str, Path]) -> Exhaustive:
    tree = title_tree(TITLES, ITEMS, TOKENIZER)
    form = TextPromptFormat.of(TOKENIZER, PromptText(**TEXT), 3, 8)
    return Exhaustive(releases["global"], form, dict(zip(tree.ad.tolist(), tree.identifiers(), strict=True)))


ASKED = [
    ({"user_id": 100}, JOURNEYS[100], MET[100]),
    ({"user_id": 101, "query": "cab  rides"}, JOURNEYS[101], MET[101]),
    ({"query": "a longer query than eight tokens"}, [], []),
    ({"exclude": [1003, 1005]}, [], [1003, 1005]),
]


@pytest.mark.parametrize(("asked", "journey", "withheld"), ASKED)
def test_the_likeliest_titles_of_all(
    releases: dict[str, Path], exhaustive: Exhaustive, asked: dict[str, Any], journey: list[int], withheld: list[int]
) -> None:
    scores = exhaustive.scores(journey, asked.get("query", ""))
    left = sorted((ad for ad in ITEMS if ad not in withheld), key=lambda ad: -scores[ad])
    ids, found = Chain(releases["global"])(**asked)
    # Activations and the cache have 16 bits; titles of nearly equal scores may change places.
    np.testing.assert_allclose(found, [scores[ad] for ad in left[:6]], atol=0.05)
    np.testing.assert_allclose([scores[ad] for ad in ids], found, atol=0.05)
    assert len(set(ids)) == 6 and not set(ids) & set(withheld)


@pytest.mark.parametrize(("asked", "journey", "withheld"), ASKED)
def test_other_modes_answer_titles_with_their_own_scores(
    releases: dict[str, Path], exhaustive: Exhaustive, asked: dict[str, Any], journey: list[int], withheld: list[int]
) -> None:
    scores = exhaustive.scores(journey, asked.get("query", ""))
    beam, exact = (Chain(releases[mode])(**asked) for mode in ("beam", "exact"))
    for ids, found in (beam, exact):
        np.testing.assert_allclose([scores[ad] for ad in ids], found, atol=0.05)
        assert len(set(ids)) == 6 and not set(ids) & set(withheld)
    assert all(better >= worse - 1e-6 for better, worse in zip(exact[1], beam[1], strict=True))


def test_all_titles_of_all_lengths(releases: dict[str, Path]) -> None:
    for mode in releases:
        assert sorted(Chain(releases[mode])(top=60)[0]) == sorted(ITEMS), mode


def test_prompts_are_text(releases: dict[str, Path]) -> None:
    encode, service = encoder(TOKENIZER), Chain(releases["exact"]).generator

    def prompt(**asked: Any) -> list[int]:
        return service.parse(dict(target_inputs(**asked))).prompt.tokens_P.tolist()

    # Films of user 100: the first three of TITLES, the second of which has the first one's title.
    assert prompt(user_id=100) == encode("seen:\nab\nab (2)\nabba\n")
    assert prompt(user_id=100, query="a  cab\n") == encode("about a cab:\nab\nab (2)\nabba\n")
    assert prompt() == prompt(query=" \n ") == encode("seen:\n")
    # Eight tokens of it, " a" and three times a space and a letter and a space.
    assert prompt(query="a b c d e f") == encode("about a b c d :\n")


def test_a_model_without_room_or_tokens_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SearchError, match="the model has 40 positions, a prompt and its answer need"):
        GeneratorService(Release.open(write_titles_release(tmp_path / "short", positions=40)), Counters())
    with pytest.raises(SearchError, match=r"the model has 258 tokens, tree and prompts need 259"):
        GeneratorService(Release.open(write_titles_release(tmp_path / "few", tokens=258)), Counters())
