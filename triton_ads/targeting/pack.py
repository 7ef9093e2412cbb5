"""From a checkpoint to the packed weights that a recipe asks for."""

from pathlib import Path

from triton_ads.compression.checkpoint import open_checkpoint
from triton_ads.compression.pack_model import Choose, mixed, pack_model, uniform
from triton_ads.compression.packed_model import PackedModel, read_packed_model
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.recipe.target import Target
from triton_ads.targeting.published import PublishedModelError, is_packed


def packed(checkpoint: Path, target: Target) -> PackedModel:
    """The checkpoint's weights, rounded to nearest and pruned by magnitude, as `target.weights` says; or as they are,
    where they are packed already.

    Raises:
        CheckpointError: no checkpoint, or one of another family of models.
        PublishedModelError: it is packed and `weights` are not, or the reverse.
        PackedModelError, PackedFileError: it is packed, and damaged.
    """
    if is_packed(checkpoint) != (target.weights == "packed"):
        raise PublishedModelError(
            f"{checkpoint}: {'a packed model' if is_packed(checkpoint) else 'no packed model'} found; "
            f"`weights: packed` is for those that triton-ads compress wrote, {target.weights!r} was asked for"
        )
    if target.weights == "packed":
        return read_packed_model(checkpoint)
    opened = open_checkpoint(checkpoint)
    return pack_model(opened, _choice(target.weights, opened.config.layers))


def _choice(weights: str, layers: int) -> Choose:
    pattern, _, values = weights.rpartition(" ")
    if pattern == "mixed":
        return mixed(layers)
    return uniform(Pattern(pattern) if pattern else Pattern.DENSE, Values(values))
