"""A build of a recipe that generates ads: what was trained is what is released, judged and served."""

import json
from pathlib import Path

import numpy as np
import pytest

from triton_ads.client.target import target_inputs
from triton_ads.data import movielens
from triton_ads.data.split import split_by_time
from triton_ads.features.words import words
from triton_ads.manifest import Manifest
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import load_recipe
from triton_ads.serving.counters import Counters
from triton_ads.serving.generator_model import GeneratorService
from triton_ads.serving.release import Release
from triton_ads.serving.verifier_model import VerifierService
from triton_ads.targeting.catalogue import identifiers_of, prompt_format
from triton_ads.targeting.journeys import Journeys
from triton_ads.trie import load_tree

ROOT = Path(__file__).parents[2]
FILE = ROOT / "tests" / "recipes" / "tiny_target.yaml"
USERS = (1, 42, 300, 943)


@pytest.fixture(scope="module")
def built(built_target: Layout) -> Layout:
    return built_target


def test_the_release_has_the_generator_and_what_it_is_worth(built: Layout) -> None:
    manifest = Manifest.load(built.release)
    assert manifest.target is not None
    assert manifest.target.ads == 1682 and manifest.target.questions > 100
    assert {"target/tree/tree.json", "target/words.json", "target/users/journeys.npy"} <= manifest.files.keys()
    assert "target/model/model.safetensors" in manifest.files
    quality = manifest.target.quality
    assert set(quality) == {"beam", "exact", "global", "popularity", "item-kNN"}
    for measures in quality.values():
        assert 0 < measures["ndcg@20"] < measures["recall@20"] < 1 and measures["recall@10"] <= measures["recall@20"]
    # Trained for seconds, it has learned what is popular at the least; untrained it would find 20 of 1,682.
    assert quality["global"]["recall@20"] > 3 * 20 / 1682
    serving = {path.name for path in built.repository.iterdir()}
    assert {"generator", "trie_verifier", "target", "ads", "rank"} <= serving


def test_prompts_of_known_users_are_the_same_offline_and_online(built: Layout) -> None:
    recipe = load_recipe(FILE)
    assert recipe.target is not None
    log = movielens.read(movielens.fetch(ROOT / "var" / "downloads"))
    journeys = Journeys.of(log, split_by_time(log.time, recipe.data), recipe.target.journey)
    whole, tree = journeys.whole(recipe.target.events), load_tree(built.work("identifiers") / "tree")
    identifiers, form = identifiers_of(tree, log), prompt_format(recipe.target, built.work("identifiers"))
    service = GeneratorService(Release.open(built.release), Counters())
    for user in USERS:
        position = int(np.searchsorted(log.user_ids, user))
        request = service.parse(dict(target_inputs(user, query="Space (1977)")))
        expected = form.prompt([identifiers[ad] for ad in whole[position]], "Space (1977)")
        assert request.prompt.tokens_P.tolist() == expected.tolist()
        met = log.item_ids[np.unique(log.item[log.user == position])]
        assert request.prompt.withheld_N.tolist() == met.tolist()


def test_answers_are_films_that_were_not_met(built: Layout) -> None:
    release = Release.open(built.release)
    generator, verifier = GeneratorService(release, Counters()), VerifierService(release)
    requests = [generator.parse(dict(target_inputs(user, top=30))) for user in USERS]
    for request, scored in zip(requests, generator.answer(requests), strict=True):
        assert isinstance(scored, dict)
        (answer,) = verifier.answer([verifier.parse(scored)])
        assert isinstance(answer, dict)
        ids = answer["target_ids"][0].tolist()
        assert len(set(ids)) == 30 and not set(ids) & set(request.prompt.withheld_N.tolist())


def test_words_of_queries_are_those_of_titles_years_and_genres(built: Layout) -> None:
    known = json.loads((built.release / "target" / "words.json").read_text())
    assert {"star", "wars", "1977", "sci", "fi", "adventure"} <= set(known)
    assert known == sorted(set(words(" ".join(known))))
