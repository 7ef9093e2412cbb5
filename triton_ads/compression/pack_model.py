"""From a checkpoint to a packed model by the plainest means: magnitude N:M, round to nearest.

Better choices (calibrated importance, adaptive groups, recovery training) give other matrices for the same names; a
`PackedModel` takes any.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.bf16 import pack_bf16, to_bf16
from triton_ads.compression.checkpoint import Checkpoint
from triton_ads.compression.llama_config import EMBEDDINGS, HEAD
from triton_ads.compression.packed_matrix import PackedMatrix
from triton_ads.compression.packed_model import PackedModel
from triton_ads.compression.packing import pack
from triton_ads.compression.patterns import Pattern, Values, tile_bytes
from triton_ads.compression.quantised import largest_of_four, round_to_nearest


@dataclass(frozen=True)
class LayerFormat:
    """How one matrix is packed. `group_size` is for INT4; None takes the one with the fewest bytes, at most 128."""

    pattern: Pattern
    values: Values
    group_size: int | None = None


Choose = Callable[[str], LayerFormat]

_HEAD_INT4: Final = LayerFormat(Pattern.DENSE, Values.INT4)


def uniform(pattern: Pattern, values: Values) -> Choose:
    """The same format for every layer. The head is never pruned: every token is decided there."""
    head = _HEAD_INT4 if values is Values.INT4 else LayerFormat(Pattern.DENSE, Values.BF16)
    return lambda name: head if name == HEAD else LayerFormat(pattern, values)


def mixed(layers: int) -> Choose:
    """INT4, 2:4 in the first and last quarter of the layers and 1:4 between: half and half.

    A stand-in for measured importance, with the same bytes and the same speed.
    """

    def choose(name: str) -> LayerFormat:
        if name == HEAD:
            return _HEAD_INT4
        number = int(name.split(".")[2])
        inner = layers / 4 <= number < 3 * layers / 4
        return LayerFormat(Pattern.ONE_OF_FOUR if inner else Pattern.TWO_OF_FOUR, Values.INT4)

    return choose


def pack_matrix(weight_NK: NDArray[np.float32], how: LayerFormat) -> PackedMatrix:
    """Float32 [outputs, inputs], pruned by magnitude and rounded to nearest."""
    keep_NK = np.ones(weight_NK.shape, np.bool_)
    if how.pattern.sparse:
        keep_NK = largest_of_four(np.abs(weight_NK), how.pattern)
    if how.values is Values.BF16:
        return pack_bf16(np.where(keep_NK, weight_NK, np.float32(0)), how.pattern)
    size = how.group_size or fewest_bytes(weight_NK.shape[1], how.pattern)
    return pack(round_to_nearest(weight_NK, how.pattern, size, keep_NK))


def fewest_bytes(columns: int, pattern: Pattern) -> int:
    """The group size, 64 or 128, whose scales and padding cost least; of equals the larger."""
    return min((128, 64), key=lambda size: tile_bytes(pattern, Values.INT4, columns, size))


def pack_model(checkpoint: Checkpoint, choose: Choose, done: Callable[[str], None] = lambda name: None) -> PackedModel:
    """Pack every layer in the format that `choose` names for it; `done` is called after each.

    Raises CheckpointError where a weight is missing or does not fit the configuration.
    """
    matrices = {}
    for name in checkpoint.config.linear_layers():
        matrices[name] = pack_matrix(checkpoint.weight(name), choose(name))
        done(name)
    return PackedModel(
        config=checkpoint.config,
        matrices=matrices,
        embeddings_VD=to_bf16(checkpoint.weight(EMBEDDINGS)),
        norms={name: checkpoint.weight(name) for name in checkpoint.config.norms()},
        frequencies=checkpoint.frequencies,
        tokenizer=checkpoint.tokenizer,
    )
