"""What the answers of the served search are worth on the test part, beside popularity and item-kNN."""

# Legend: A ads.

import time
from collections.abc import Callable, Sequence

import numpy as np

from triton_ads.data.log import Log
from triton_ads.features.prompt import Prompts
from triton_ads.recipe.target import Target
from triton_ads.serving.decoder import Decoder
from triton_ads.serving.target.ads import AdSearch, Asked, SearchError
from triton_ads.targeting.journeys import Journeys
from triton_ads.targeting.recall import ItemNeighbours, Popularity, Question, recall_and_ndcg
from triton_ads.trie import Tree

AT = (10, 20)
MODES = ("beam", "exact", "global")
Measures = dict[str, float]


def measure(
    log: Log,
    journeys: Journeys,
    questions: Sequence[Question],
    identifiers: Sequence[Sequence[int]],
    tree: Tree,
    decoder: Decoder,
    form: Prompts,
    target: Target,
) -> dict[str, Measures]:
    """Recall and NDCG at 10 and 20 of every mode and of the baselines, and of modes the median milliseconds a request.

    A mode for which `target.max_nodes` has no room is left out, unless it is the recipe's own.

    Args:
        identifiers: of every ad of the log.

    Raises:
        SearchError: the recipe's mode has no room.
    """
    found: dict[str, Measures] = {}
    position = {int(ad): i for i, ad in enumerate(log.item_ids)}
    prompts = [form.prompt([identifiers[ad] for ad in question.journey]) for question in questions]
    for mode in MODES:
        try:
            searching = AdSearch(tree, decoder, form, target.model_copy(update={"mode": mode}))
        except SearchError:
            if mode == target.mode:
                raise
            continue
        answers, milliseconds = [], []
        for question, prompt in zip(questions, prompts, strict=True):
            seen = log.item_ids[sorted(question.seen)]
            began = time.perf_counter()
            (request,), _ = searching.run([Asked(prompt, seen, max(AT))])
            milliseconds.append((time.perf_counter() - began) * 1000)
            assert request.found is not None  # nothing stops it
            answers.append([position[ad] for ad in tree.ad_of(request.found.node_B).tolist()])
        found[mode] = measures_of(answers, questions) | {"milliseconds": float(np.median(milliseconds))}
    for name, answer in baselines(log, journeys).items():
        found[name] = measures_of([answer(question, max(AT)) for question in questions], questions)
    return found


def baselines(log: Log, journeys: Journeys) -> dict[str, Callable[[Question, int], list[int]]]:
    """Baselines by name, fitted to the training part: question, number of ads -> positions of ads, best first."""
    event = np.flatnonzero(journeys.member_n[: journeys.split.train_end])
    ads = len(log.item_ids)
    return {
        "popularity": Popularity(log.item[event], ads).answer,
        "item-kNN": ItemNeighbours(log.user[event], log.item[event], len(log.user_ids), ads).answer,
    }


def measures_of(answers: Sequence[Sequence[int]], questions: Sequence[Question]) -> Measures:
    """`recall@10`, `ndcg@10`, `recall@20`, `ndcg@20`."""
    measures: Measures = {}
    for at in AT:
        recall, ndcg = recall_and_ndcg(answers, questions, at)
        measures |= {f"recall@{at}": recall, f"ndcg@{at}": ndcg}
    return measures
