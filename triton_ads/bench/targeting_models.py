"""The generators of benchmark `targeting`: trained with several seeds, then compressed step by step.

Calibration and recovery training read the recipe's own training journeys, in windows as long as a prompt with its
answer. All is kept in a folder under a digest of what decides it, so that a second run trains nothing.
"""

# Legend: S windows, T tokens of a window.

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.checkpoint import Checkpoint, open_checkpoint
from triton_ads.compression.compress import packed_model
from triton_ads.compression.compressor import Compressor
from triton_ads.compression.groups import matrix_bytes, uniform_size
from triton_ads.compression.llama import build_llama
from triton_ads.compression.llama_config import HEAD, LlamaConfig
from triton_ads.compression.pack_model import pack_model, uniform
from triton_ads.compression.packed_model import PackedModel, read_packed_model, write_packed_model
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.compression.recipe import CompressionRecipe, parse_compression_recipe
from triton_ads.recipe.target import Target
from triton_ads.targeting.examples import ExampleMaker
from triton_ads.targeting.tokenizer import tokenizer_file
from triton_ads.targeting.train import train_generator

DENSE, INT4, SPARSE, MIX = "dense BF16", "INT4", "sparse + INT4", "layer-adaptive + INT4"
#: As the compressor starts from: groups of this size.
_GROUP = 64
#: Windows that calibration reads, and those of a step of recovery training.
CALIBRATION, BATCH = 256, 16


@dataclass(frozen=True)
class Lesson:
    """What generators are trained on."""

    maker: ExampleMaker
    journeys: list[list[int]]  # of the training part
    vocabulary: int
    positions: int
    branching: tuple[int, ...]
    catalogue: str


def compressions(config: LlamaConfig, recovery_steps: int) -> dict[str, CompressionRecipe]:
    """How each compressed contender is made; the head stays dense. Layer-adaptive: 2:4 and 1:4 by measured importance,
    in as many bytes as half of each would take."""
    int4 = {"values": "int4", "rounding": "compensated", "groups": {"kind": "adaptive", "size": _GROUP}}
    recovery = {"steps": recovery_steps, "sequences": BATCH} if recovery_steps else None
    half = (_bytes(config, Pattern.TWO_OF_FOUR) + _bytes(config, Pattern.ONE_OF_FOUR)) / 2
    mix = {"patterns": ["2:4", "1:4"], "budget": {"megabytes_per_token": half / 1e6}}
    return {
        INT4: parse_compression_recipe({"patterns": ["dense"], **int4}),
        SPARSE: parse_compression_recipe({"patterns": ["2:4"], "recovery": recovery, **int4}),
        MIX: parse_compression_recipe({**mix, "recovery": recovery, **int4}),
    }


def _bytes(config: LlamaConfig, pattern: Pattern) -> int:
    total = 0
    for name, shape in config.linear_layers().items():
        chosen = Pattern.DENSE if name == HEAD else pattern
        total += matrix_bytes(chosen, Values.INT4, shape, uniform_size(chosen, shape[1], _GROUP))
    return total


def generators(lesson: Lesson, target: Target, seed: int, recovery_steps: int, keep: Path) -> dict[str, PackedModel]:
    """The contenders of one seed by name, found in `keep` or made there."""
    training = target.training.model_copy(update={"seed": seed})
    of_training = {
        "catalogue": lesson.catalogue,
        **target.model_dump(mode="json", include={"journey", "events", "query_words"}),
        "model": target.model.model_dump(mode="json", exclude_defaults=True),
        "training": training.model_dump(mode="json", exclude_defaults=True),
    }
    trained = keep / f"generator-{_digest(of_training)}"
    if not (trained / "tokenizer.json").exists():
        print(f"seed {seed}: training", flush=True)
        train_generator(
            lesson.maker, lesson.journeys, lesson.vocabulary, lesson.positions, target.model, training, trained
        )
        # Written last: a training that was cut short is done again.
        tokenizer = tokenizer_file(lesson.maker.form.vocabulary, lesson.branching)
        (trained / "tokenizer.json").write_text(tokenizer, encoding="utf-8")
    checkpoint = open_checkpoint(trained)
    recipes = compressions(checkpoint.config, recovery_steps)
    folders = {name: trained / f"packed-{_digest(one.model_dump(mode='json'))}" for name, one in recipes.items()}
    if not all((folder / "done").exists() for folder in folders.values()):
        print(f"seed {seed}: compressing", flush=True)
        for name, model in _compressed(checkpoint, lesson, seed, recipes):
            write_packed_model(folders[name], model)
            (folders[name] / "done").touch()
    dense = pack_model(checkpoint, uniform(Pattern.DENSE, Values.BF16))
    return {DENSE: dense} | {name: read_packed_model(folder) for name, folder in folders.items()}


def _compressed(
    checkpoint: Checkpoint, lesson: Lesson, seed: int, recipes: dict[str, CompressionRecipe]
) -> Iterator[tuple[str, PackedModel]]:
    ids_ST = windows(lesson.maker, lesson.journeys, seed)
    compressor = Compressor(build_llama(checkpoint), ids_ST[:CALIBRATION], ids_ST)
    for name, recipe in recipes.items():
        yield name, packed_model(checkpoint, compressor.compress(recipe))


def windows(maker: ExampleMaker, journeys: list[list[int]], seed: int) -> NDArray[np.int64]:
    """Windows of journeys, int64 [S, T], shuffled: those of the greatest length, which fill a prompt and its answer
    where journeys are long enough. Of three epochs, which cut journeys at other places."""
    random = np.random.default_rng([seed, 1])
    without_queries = replace(maker, query_share=0.0)
    found = [one.tokens for _ in range(3) for one in without_queries.epoch(journeys, random)]
    longest = max(map(len, found))
    return np.stack([tokens for tokens in found if len(tokens) == longest])


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:12]
