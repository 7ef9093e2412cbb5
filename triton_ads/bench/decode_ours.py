"""Our side of `triton-ads bench decode`: one checkpoint packed in every format of the ablation."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.checkpoint import Checkpoint
from triton_ads.compression.pack_model import Choose, mixed, pack_model, uniform
from triton_ads.compression.packed_model import PackedModel, read_packed_model, write_packed_model
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.kernels.product import ActivationBits
from triton_ads.serving.decoder import Decoder

BASELINE = "BF16"
#: Rows of the seed's ablation: ours -> its speed-up over FP16 (Table 1: ERNIE 1.5B, one A10 GPU).
SEED = {
    BASELINE: 1.0,
    "INT4": 1.37,
    "2:4": 1.25,
    "1:4": 1.43,
    "2:4 + INT4": 1.65,
    "1:4 + INT4": 1.89,
    "mix + INT4": 1.78,
}


def formats(layers: int) -> dict[str, Choose]:
    """How each row is packed."""
    return {
        BASELINE: uniform(Pattern.DENSE, Values.BF16),
        "INT4": uniform(Pattern.DENSE, Values.INT4),
        "2:4": uniform(Pattern.TWO_OF_FOUR, Values.BF16),
        "1:4": uniform(Pattern.ONE_OF_FOUR, Values.BF16),
        "2:4 + INT4": uniform(Pattern.TWO_OF_FOUR, Values.INT4),
        "1:4 + INT4": uniform(Pattern.ONE_OF_FOUR, Values.INT4),
        "mix + INT4": mixed(layers),
    }


def packed_models(checkpoint: Checkpoint, folder: Path) -> dict[str, PackedModel]:
    """Packed into the folder where they are not there yet, and read from there, as a server would."""
    found = {}
    for name, choose in formats(checkpoint.config.layers).items():
        place = folder / name.replace(" ", "")
        if not place.exists():
            write_packed_model(place, pack_model(checkpoint, choose))
        found[name] = read_packed_model(place)
    return found


class Ours:
    """One model, decoding tokens one after the other from an empty prompt."""

    def __init__(self, model: PackedModel, bits: ActivationBits, threads: int, context: int) -> None:
        self._sequence = Decoder(model).sequence(context, activation_bits=bits, threads=threads)
        self._last = np.zeros((1, model.config.vocabulary), np.float32)
        self.nbytes = model.weight_bytes

    def decode(self, tokens: list[int]) -> None:
        self._sequence.cut(0)
        for token in tokens:
            self._last = self._sequence.extend([token])

    def logits(self) -> NDArray[np.float32]:
        """After the last token, float32 [V]."""
        return self._last[0]


def contenders(models: Mapping[str, PackedModel], threads: int, context: int) -> Iterator[tuple[str, Ours]]:
    """Each model with 16-bit activations; where weights are INT4, also with the 8 bits that llama.cpp uses."""
    for name, model in models.items():
        yield name, Ours(model, 16, threads, context)
        if "INT4" in name:
            yield f"{name}, A8", Ours(model, 8, threads, context)
