"""From a checkpoint to a packed model and its report."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from triton_ads.compression.allocate import BudgetError
from triton_ads.compression.bf16 import to_bf16
from triton_ads.compression.budget import possible
from triton_ads.compression.checkpoint import Checkpoint, open_checkpoint
from triton_ads.compression.compressed_matrix import packed
from triton_ads.compression.compressor import Compressed, Compressor
from triton_ads.compression.llama import build_llama, with_weights
from triton_ads.compression.llama_config import EMBEDDINGS
from triton_ads.compression.packed_model import PackedModel, write_packed_model
from triton_ads.compression.quality import perplexity
from triton_ads.compression.recipe import CompressionRecipe, CompressionRecipeError
from triton_ads.compression.report import CompressionReport, compression_report
from triton_ads.compression.text import Encode, Texts, python_documentation, read_texts, token_sequences, with_held_out

#: Tokens of held-out text on which perplexity is measured, at most.
_HELD_OUT_TOKENS = 4096


@dataclass(frozen=True)
class Ids:
    """Token ids of the text, int64 each.

    calibration_ST: the sequences to calibrate on.
    training_ST:    the calibration half in sequences as long as those of recovery training; empty without it.
    held_out_ST:    the other half, or as much of it as is asked for.
    """

    calibration_ST: NDArray[np.int64]
    training_ST: NDArray[np.int64]
    held_out_ST: NDArray[np.int64]


def read_ids(recipe: CompressionRecipe, encode: Encode, held_out_tokens: int = _HELD_OUT_TOKENS) -> Ids:
    """The recipe's text, or the default, as token ids. Raises TextError where it is too short."""
    part = recipe.calibration
    texts: Texts = with_held_out(read_texts(part.text)) if part.text else python_documentation()
    calibration = np.asarray(encode(texts.calibration), np.int64)
    held_out = np.asarray(encode(texts.held_out), np.int64)
    held_out_sequences = max(1, min(held_out_tokens, held_out.size) // part.tokens)
    training_ST = np.zeros((0, 1), np.int64)
    if recipe.recovery is not None:
        tokens = recipe.recovery.tokens
        training_ST = token_sequences(calibration, max(1, calibration.size // tokens), tokens)
        # Neighbouring pieces come from one chapter; a batch should not.
        training_ST = np.random.default_rng(0).permutation(training_ST)
    return Ids(
        token_sequences(calibration, part.sequences, part.tokens),
        training_ST,
        token_sequences(held_out, held_out_sequences, part.tokens),
    )


def compress(recipe: CompressionRecipe, checkpoint_path: Path, out: Path) -> CompressionReport:
    """Compress and write the folder of a packed model. The same inputs give the same bytes on the same machine.

    Raises CheckpointError, TextError, and CompressionRecipeError for a budget that cannot be met.
    """
    checkpoint = open_checkpoint(checkpoint_path)
    tokenizer = Tokenizer.from_str(checkpoint.tokenizer)
    ids = read_ids(recipe, lambda text: tokenizer.encode(text, add_special_tokens=False).ids)
    compressor = Compressor(build_llama(checkpoint), ids.calibration_ST, ids.training_ST)
    try:
        compressed = compressor.compress(recipe)
    except BudgetError as error:
        raise CompressionRecipeError(
            f"budget {_said(recipe)}: too little with groups of {recipe.groups.size}; "
            f"{possible(error.least, error.most, checkpoint.config)}"
        ) from None
    model = packed_model(checkpoint, compressed)
    write_packed_model(out, model)
    before = perplexity(compressor.model, ids.held_out_ST)
    with with_weights(
        compressor.model, {name: one.dequantised() for name, one in compressed.matrices.items()}
    ) as smaller:
        after = perplexity(smaller, ids.held_out_ST)
    return compression_report(
        checkpoint.config, compressed, model.matrices, compressor.weights, compressor.calibration, before, after
    )


def packed_model(checkpoint: Checkpoint, compressed: Compressed) -> PackedModel:
    """The compressed matrices with everything else that a decoder needs."""
    return PackedModel(
        config=checkpoint.config,
        matrices={name: packed(matrix) for name, matrix in compressed.matrices.items()},
        embeddings_VD=to_bf16(checkpoint.weight(EMBEDDINGS)),
        norms={name: checkpoint.weight(name) for name in checkpoint.config.norms()},
        frequencies=checkpoint.frequencies,
        tokenizer=checkpoint.tokenizer,
    )


def _said(recipe: CompressionRecipe) -> str:
    """The budget as the recipe says it."""
    assert recipe.budget is not None
    return ", ".join(f"{name} {value:g}" for name, value in recipe.budget.model_dump(exclude_none=True).items())
