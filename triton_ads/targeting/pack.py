"""From a checkpoint to the packed weights that a recipe asks for."""

from pathlib import Path

from triton_ads.compression.checkpoint import open_checkpoint
from triton_ads.compression.pack_model import Choose, mixed, pack_model, uniform
from triton_ads.compression.packed_model import PackedModel
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.recipe.target import Target


def packed(checkpoint: Path, target: Target) -> PackedModel:
    """The checkpoint's weights, rounded to nearest and pruned by magnitude, as `target.weights` says.

    Raises:
        CheckpointError: no checkpoint, or one of another family of models.
    """
    opened = open_checkpoint(checkpoint)
    return pack_model(opened, _choice(target.weights, opened.config.layers))


def _choice(weights: str, layers: int) -> Choose:
    pattern, _, values = weights.rpartition(" ")
    if pattern == "mixed":
        return mixed(layers)
    return uniform(Pattern(pattern) if pattern else Pattern.DENSE, Values(values))
