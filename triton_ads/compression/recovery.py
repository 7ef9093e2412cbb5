"""A short training of what compression has left, under its masks and on its grids.

The compressed model learns to answer as the uncompressed one does: the loss is the Kullback-Leibler divergence of their
next-token distributions (distillation), so text needs no labels and the student is not taught the text itself. Masks,
groups and scales stay as they are, and so does the packed size. Weights are trained in units of their group's scale;
where values are INT4 the forward pass sees them rounded and the gradient passes the rounding as if it were not there
(straight-through, Bengio et al. 2013). One learning rate then suits every matrix: Adam moves a weight by at most about
that share of a step of its grid. Training starts at the weights as they were just before rounding, not in the middle
of their steps, from where a short training with a small rate would change no code. The head and the norms are not
trained.

Legend: S sequences, T tokens, V vocabulary; N rows (outputs), K columns (inputs), B blocks of 32 columns.
"""

import math
from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.func import functional_call
from torch.nn import functional

from triton_ads.compression.compressed_matrix import CompressedMatrix, Rounded, pruned_matrix
from triton_ads.compression.llama import Llama
from triton_ads.compression.llama_config import HEAD
from triton_ads.compression.patterns import SCALE_COLUMNS
from triton_ads.compression.quantised import CODE_MAX, CODE_MIN, QuantisedMatrix, Scalar, pad_columns
from triton_ads.compression.recipe import RecoveryPart
from triton_ads.progress import StageProgress

#: Share of the steps in which the learning rate rises; it then falls to 0 along a cosine.
_WARM_UP = 0.1
#: Where 16-bit values have no grid, a step is this share of a row's largest weight, as in INT4.
_STEPS_OF_LARGEST = CODE_MAX


class _OnGrid:
    """One matrix in training: weight = unit * scale, where `unit` is rounded for INT4 values."""

    def __init__(self, rounded: Rounded) -> None:
        self._matrix = matrix = rounded.matrix
        self._keep_NBC = torch.from_numpy(_blocks(rounded.keep_NK))
        if isinstance(matrix, QuantisedMatrix):
            self._scale_NB1 = torch.from_numpy(matrix.scales_NB.astype(np.float32))[..., None]
        else:
            largest_N11 = torch.from_numpy(np.abs(matrix.weight_NK).max(axis=1)[:, None, None])
            self._scale_NB1 = torch.where(largest_N11 > 0, largest_N11 / _STEPS_OF_LARGEST, 1)
        inverse_NB1 = torch.where(self._scale_NB1 != 0, 1 / self._scale_NB1, 0)
        self.unit_NBC = torch.from_numpy(_blocks(rounded.unrounded_NK)) * inverse_NB1 * self._keep_NBC
        self.clip()

    def weight(self) -> Tensor:
        """The weight as it will be packed: float32 [N, K], a leaf that takes a gradient."""
        unit_NBC = self.unit_NBC.round() if isinstance(self._matrix, QuantisedMatrix) else self.unit_NBC
        weight_NK = (unit_NBC * self._scale_NB1).flatten(1)[:, : self._columns]
        return weight_NK.requires_grad_(True)

    def take_gradient(self, weight_NK: Tensor) -> None:
        """Straight through the rounding; pruned weights get none."""
        assert weight_NK.grad is not None
        gradient_NK = functional.pad(weight_NK.grad, (0, -self._columns % SCALE_COLUMNS))
        self.unit_NBC.grad = gradient_NK.unflatten(1, (-1, SCALE_COLUMNS)) * self._scale_NB1 * self._keep_NBC

    def clip(self) -> None:
        """Keep INT4 units among the codes there are."""
        if isinstance(self._matrix, QuantisedMatrix):
            self.unit_NBC.clamp_(CODE_MIN, CODE_MAX)

    def trained(self) -> CompressedMatrix:
        if isinstance(self._matrix, QuantisedMatrix):
            codes_NK = self.unit_NBC.round().flatten(1)[:, : self._columns].to(torch.int8).numpy()
            return QuantisedMatrix(
                self._matrix.pattern, np.ascontiguousarray(codes_NK), self._matrix.scales_NB, self._matrix.group_size_N
            )
        return pruned_matrix(self.weight().detach().numpy(), self._matrix.pattern)

    @property
    def _columns(self) -> int:
        matrix = self._matrix
        return matrix.columns if isinstance(matrix, QuantisedMatrix) else matrix.weight_NK.shape[1]


def _blocks(matrix_NK: NDArray[Scalar]) -> NDArray[Scalar]:
    """[N, B, 32], padded with zeros."""
    return pad_columns(matrix_NK, SCALE_COLUMNS).reshape(len(matrix_NK), -1, SCALE_COLUMNS)


def recover(
    model: Llama,
    rounded: Mapping[str, Rounded],
    ids_ST: NDArray[np.int64],
    part: RecoveryPart,
) -> dict[str, CompressedMatrix]:
    """The matrices after training; those of the head as they were.

    Args:
        model: the uncompressed model, the teacher.
        rounded: the compressed matrices; a weight that its mask keeps may become 0 or cease to be.
        ids_ST: text, read from its start to its end, again where it is too short: int64.
    """
    grids = {name: _OnGrid(one) for name, one in rounded.items() if name != HEAD}
    units = [grid.unit_NBC for grid in grids.values()]
    # A gradient in units of a step is a small number: Adam's usual epsilon would outweigh it.
    optimizer = torch.optim.Adam(units, lr=part.learning_rate, betas=(0.9, 0.95), eps=1e-12, fused=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _learning_rate(step, part.steps))
    others = {name: torch.from_numpy(one.matrix.dequantised()) for name, one in rounded.items() if name not in grids}
    with StageProgress("recovery", part.steps) as progress:
        for step in range(part.steps):
            rows_S = np.arange(step * part.sequences, (step + 1) * part.sequences) % len(ids_ST)
            weights = {name: grid.weight() for name, grid in grids.items()}
            total = 0.0
            for ids_1T in torch.from_numpy(ids_ST[rows_S])[:, None]:
                loss = _divergence(model, weights | others, ids_1T) / part.sequences
                loss.backward()
                total += loss.item()
            for name, grid in grids.items():
                grid.take_gradient(weights[name])
            optimizer.step()
            schedule.step()
            for grid in grids.values():
                grid.clip()
            progress.advance(f"divergence {total:.3f}")
    return {name: grids[name].trained() if name in grids else one.matrix for name, one in rounded.items()}


def _learning_rate(step: int, steps: int) -> float:
    """As a share of the highest."""
    warm = max(1, round(_WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def _divergence(model: Llama, weights: Mapping[str, Tensor], ids_ST: Tensor) -> Tensor:
    """KL(uncompressed || compressed) of the next token, mean over tokens, in nats."""
    replaced = {f"{name}.weight": weight_NK for name, weight_NK in weights.items()}
    with torch.autocast("cpu", torch.bfloat16, enabled=bool(torch.cpu.get_capabilities().get("avx512_bf16"))):
        with torch.no_grad():
            teacher_STV = model(ids_ST)
        student_STV = functional_call(model, replaced, (ids_ST,))
    return functional.kl_div(
        student_STV.float().log_softmax(-1).flatten(0, 1),
        teacher_STV.float().log_softmax(-1).flatten(0, 1),
        reduction="batchmean",
        log_target=True,
    )
