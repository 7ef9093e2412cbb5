"""How much each layer loses when it is pruned further: measured, by doing it.

All matrices are pruned to the densest pattern allowed. Then one layer after the other is pruned to a sparser one, the
loss on calibration text is measured, and the layer is put back. What the layers before it compute does not change, so
each measurement starts at the layer itself. Within a layer the measured increase is shared out among the matrices by
their estimates (`Calibration.loss_increase_N`), which are cheap but say less across layers.

Legend: S sequences, T tokens, D width, N rows (outputs), K columns (inputs).
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from triton_ads.compression.calibration import Calibration
from triton_ads.compression.llama import Llama, layer_of, next_token_loss, with_weights
from triton_ads.compression.patterns import Pattern
from triton_ads.progress import StageProgress

#: (name of a matrix, pattern) -> the pruned weight, float32 [N, K].
Pruned = Callable[[str, Pattern], NDArray[np.float32]]


def loss_increases(
    model: Llama,
    choices: Mapping[str, Sequence[Pattern]],
    pruned: Pruned,
    calibration: Mapping[str, Calibration],
    ids_ST: NDArray[np.int64],
) -> dict[str, list[float]]:
    """For every matrix the increase of the loss, in nats, by each of its choices in place of the first.

    The first choice is the densest and has the increase 0. Increases are never below 0, nor is a sparser choice's
    below a denser one's: what the measurement finds beneath is noise.

    Args:
        choices: patterns by matrix, from dense to sparse; matrices that are left out stay as they are.
        ids_ST: the text to measure on, int64.
    """
    densest = {name: pruned(name, patterns[0]) for name, patterns in choices.items()}
    increases = {name: [0.0] for name in choices}
    places = sorted({layer_of(name) for name, patterns in choices.items() if len(patterns) > 1})
    most = max((len(patterns) for patterns in choices.values()), default=1)
    ids = torch.from_numpy(ids_ST)
    with (
        torch.inference_mode(),
        with_weights(model, densest),
        StageProgress("layer importance", len(places) * (most - 1)) as progress,
    ):
        x_STD, entered = model.model.embed_tokens(ids), 0
        base = next_token_loss(model.from_layer(x_STD, 0), ids).item()
        for place in places:
            x_STD, entered = model.between(x_STD, entered, place), place
            for number in range(1, most):
                sparser = {
                    name: pruned(name, patterns[number])
                    for name, patterns in choices.items()
                    if layer_of(name) == place and number < len(patterns)
                }
                with with_weights(model, sparser):
                    measured = next_token_loss(model.from_layer(x_STD, place), ids).item() - base
                estimates = {
                    name: float(calibration[name].loss_increase_N(weight_NK - densest[name]).sum())
                    for name, weight_NK in sparser.items()
                }
                for name, estimate in estimates.items():
                    share = estimate / total if (total := sum(estimates.values())) > 0 else 1 / len(estimates)
                    increases[name].append(max(increases[name][-1], measured * share))
                progress.advance(f"layer {place}: {measured:+.4f}")
    return increases
