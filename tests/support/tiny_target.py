"""A recipe that generates ads, and a whole release of one with a small random model: nothing is trained."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.random_llama import EXACT, Reference, config_of, random_checkpoint
from tests.support.tiny_release import ITEMS, USERS, seal, tiny_recipe, write_tiny_release
from triton_ads.compression.pack_model import pack_model
from triton_ads.compression.packed_model import PackedModel, read_packed_model, write_packed_model
from triton_ads.features.prompt import PromptFormat, Prompts, PromptVocabulary
from triton_ads.manifest import TargetManifest
from triton_ads.recipe import Recipe, parse_recipe
from triton_ads.targeting.identifiers import cluster_identifiers
from triton_ads.trie import Tree, build_tree, save_tree

WORDS = ("comedy", "drama", "space")
EVENTS, BRANCHING = 3, (5, 4, 4)
#: What the store says of the first users: all others have met nothing.
JOURNEYS = {100: [1000, 1001, 1002], 101: [1010], 102: [1020, 1021]}
MET = {100: [1000, 1001, 1002, 1003, 1004], 101: [1010, 1059], 102: [1020, 1021], 103: [1030]}


def target_recipe(recipe: Recipe | None = None, **target: Any) -> Recipe:
    """The recipe with a `target` on its first sequence; `target` replaces fields of it."""
    recipe = recipe or tiny_recipe()
    document = recipe.model_dump(mode="json")
    document["target"] = {
        "journey": recipe.sequences[0].name,
        "events": EVENTS,
        "query_words": 3,
        "identifiers": {"width": 4, "length": len(BRANCHING), "branching": BRANCHING},
        "beam": 6,
        "max_top": 70,
        "deadline_ms": 10_000,
        **target,
    }
    return parse_recipe(document)


def write_target_release(folder: Path, recipe: Recipe | None = None) -> Path:
    """The tiny release with a tree of its items and a random generator."""
    tree = build_tree(list(_identifiers().values()), np.array(ITEMS))
    tokens = PromptVocabulary(WORDS).first_identifier + sum(BRANCHING)
    model = pack_model(random_checkpoint(config_of(vocabulary=tokens)), lambda name: EXACT)
    return write_parts(folder, recipe or target_recipe(), tree, WORDS, model)


def _identifiers() -> dict[int, list[int]]:
    vectors = np.random.default_rng(0).normal(size=(len(ITEMS), 4)).astype(np.float32)
    first = PromptVocabulary(WORDS).first_identifier
    return dict(zip(ITEMS, cluster_identifiers(vectors, len(BRANCHING), first, BRANCHING).of_ad, strict=True))


def write_parts(folder: Path, recipe: Recipe, tree: Tree, words: Sequence[str], model: PackedModel) -> Path:
    """The tiny release with these parts of a target."""
    write_tiny_release(folder, recipe)
    place = folder / "target"
    save_tree(tree, place / "tree")
    (place / "words.json").write_text(json.dumps(words))
    (place / "users").mkdir()
    journeys = np.full((len(USERS), EVENTS), -1, np.int64)
    for user, ads in JOURNEYS.items():
        journeys[USERS.index(user), : len(ads)] = ads
    met = [MET.get(user, []) for user in USERS]
    arrays = {"ids": USERS, "journeys": journeys, "met": np.concatenate(met), "met_end": np.cumsum([*map(len, met)])}
    for name, array in arrays.items():
        np.save(place / "users" / f"{name}.npy", np.asarray(array, np.int64))
    write_packed_model(place / "model", model)
    manifest = TargetManifest(
        catalogue=tree.catalogue,
        ads=tree.ads,
        nodes=tree.nodes,
        words=len(words),
        vocabulary=model.config.vocabulary,
        parameters=0,
        weight_bytes=model.weight_bytes,
        questions=0,
        quality={},
    )
    seal(folder, recipe, manifest)
    return folder


class Exhaustive:
    """What a release's model says of every ad, from the plain reference of the decoder: no tree, no search."""

    def __init__(
        self, release: Path, form: Prompts | None = None, identifier: Mapping[int, list[int]] | None = None
    ) -> None:
        self._model = Reference(read_packed_model(release / "target" / "model"))
        self._form = form or PromptFormat(PromptVocabulary(WORDS), EVENTS, 3)
        self.identifier = identifier or _identifiers()

    def scores(self, journey: list[int], query: str = "") -> dict[int, float]:
        """Ad -> log-probability of its identifier; the journey oldest first."""
        prompt = self._form.prompt([self.identifier[ad] for ad in journey], query).tolist()
        found: dict[tuple[int, ...], NDArray[np.float64]] = {}
        scores = {}
        for ad, identifier in self.identifier.items():
            scores[ad] = 0.0
            for k, token in enumerate(identifier):
                head = tuple(identifier[:k])
                if head not in found:
                    logits = self._model.logits([*prompt, *head])[-1]
                    found[head] = logits - np.logaddexp.reduce(logits)
                scores[ad] += float(found[head][token])
        return scores
