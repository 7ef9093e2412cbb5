"""Ads as a tree, the words of queries, and what is known of users: all that a generator and its server start from.

FOLDER/tree/           the identifier tree (triton_ads/trie/file.py)
       words.json      the words that queries may use, sorted; none with titles, which are asked for in text
       tokenizer.json  with titles: whose tokens they are
       branching.json  with clusters: children of a node on each level
       users/          journeys and all ads met, by user (triton_ads/serving/journeys.py)
"""

# Legend: A ads, U users, E events of a journey, n events.

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.packed_model import TOKENIZER_FILE
from triton_ads.data.log import Log
from triton_ads.data.split import split_by_time
from triton_ads.features.ids import MISSING
from triton_ads.features.prompt import PromptFormat, Prompts, PromptVocabulary, vocabulary_of
from triton_ads.features.text_prompt import TextPromptFormat
from triton_ads.recipe import Recipe
from triton_ads.recipe.target import Identifiers, Target
from triton_ads.targeting.identifiers import cluster_identifiers
from triton_ads.targeting.journeys import Journeys
from triton_ads.targeting.representation import behaviour_vectors, joined, text_vectors
from triton_ads.targeting.titles import title_tree
from triton_ads.trie import Tree, build_tree, save_tree


def texts_of(log: Log) -> list[str]:
    """What every ad says of itself, in the order of the log's items."""
    return [log.texts.get(item, log.titles[item]) for item in log.item_ids.tolist()]


def write_catalogue(recipe: Recipe, target: Target, log: Log, folder: Path, tokenizer: str | None = None) -> Tree:
    """Give the log's ads identifiers, and write the folder.

    Args:
        tokenizer: of identifiers that are titles, the text of a checkpoint's `tokenizer.json`.

    Raises:
        TreeError: the recipe's branching has no room for all ads; a title is empty or too long.
        TitleError, TextPromptError: the tokenizer cannot write titles.
    """
    journeys = Journeys.of(log, split_by_time(log.time, recipe.data), target.journey)
    found = catalogue_of(target, log, journeys, tokenizer)
    save_tree(found.tree, folder / "tree")
    (folder / "words.json").write_text(json.dumps(found.words) + "\n", encoding="utf-8")
    if tokenizer is not None:
        (folder / TOKENIZER_FILE).write_text(tokenizer, encoding="utf-8")
    else:
        (folder / "branching.json").write_text(json.dumps(found.branching) + "\n")
    _write_users(log, journeys, target.events, folder / "users")
    return found.tree


@dataclass(frozen=True)
class Catalogue:
    """Ads as a tree, and what queries may say."""

    tree: Tree
    words: tuple[str, ...]  # none with titles
    branching: tuple[int, ...] | None  # of clusters


def catalogue_of(target: Target, log: Log, journeys: Journeys, tokenizer: str | None = None) -> Catalogue:
    """Titles as the tokenizer writes them, or clusters by what was known in training. As for `write_catalogue`."""
    chosen = target.identifiers
    if tokenizer is not None:
        titles = [log.titles[item] for item in log.item_ids.tolist()]
        return Catalogue(title_tree(titles, log.item_ids, tokenizer, chosen.longest), (), None)
    vocabulary = vocabulary_of(texts_of(log))
    vectors_AD = _vectors(chosen, log, journeys)
    found = cluster_identifiers(vectors_AD, chosen.length, vocabulary.first_identifier, chosen.branching or None)
    return Catalogue(build_tree(found.of_ad, log.item_ids), vocabulary.words, found.branching)


def prompts_of(target: Target, folder: Path) -> Prompts:
    """The prompts of a catalogue that `write_catalogue` wrote."""
    if target.identifiers.of == "titles":
        tokenizer = (folder / TOKENIZER_FILE).read_text(encoding="utf-8")
        return TextPromptFormat.of(tokenizer, target.text, target.events, target.query_words)
    return prompt_format(target, folder)


def prompt_format(target: Target, folder: Path) -> PromptFormat:
    """The same of identifiers of clusters."""
    words = json.loads((folder / "words.json").read_text(encoding="utf-8"))
    return PromptFormat(PromptVocabulary(tuple(words)), target.events, target.query_words)


def identifiers_of(tree: Tree, log: Log) -> list[list[int]]:
    """The identifier of every ad, in the order of the log's items."""
    leaf_A, _ = tree.leaves_of(log.item_ids)
    return [tree.path(leaf) for leaf in leaf_A.tolist()]


def _vectors(chosen: Identifiers, log: Log, journeys: Journeys) -> NDArray[np.float32]:
    parts = []
    if chosen.of in ("text", "both"):
        parts.append(text_vectors(texts_of(log), chosen.width))
    if chosen.of in ("behaviour", "both"):
        event = np.flatnonzero(journeys.member_n[: journeys.split.train_end])
        users, ads = len(log.user_ids), len(log.item_ids)
        parts.append(behaviour_vectors(log.user[event], log.item[event], users, ads, chosen.width))
    return joined(*parts)


def _write_users(log: Log, journeys: Journeys, events: int, folder: Path) -> None:
    folder.mkdir(parents=True)
    journey_UE = np.full((len(log.user_ids), events), MISSING, np.int64)
    for row, ads in zip(journey_UE, journeys.whole(events), strict=True):
        row[: len(ads)] = log.item_ids[ads]
    # Every ad that a user met, once.
    met = np.unique(np.stack([log.user.astype(np.int64), log.item.astype(np.int64)], axis=1), axis=0)
    end_U = np.searchsorted(met[:, 0], np.arange(len(log.user_ids)), side="right")
    arrays = {"ids": log.user_ids, "journeys": journey_UE, "met": log.item_ids[met[:, 1]], "met_end": end_U}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array.astype(np.int64), allow_pickle=False)
