"""What calibration text says of every matrix: how strong its inputs are, how much the loss depends on its weights.

One pass forward and one back for each sequence, with the weights as they are.

Legend: N rows (outputs), K columns (inputs), T tokens, S sequences.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from triton_ads.compression.llama import Llama, linear_layers, next_token_loss
from triton_ads.progress import StageProgress


@dataclass(frozen=True)
class Calibration:
    """Of one matrix y = W x. E is the sum of a sequence's losses, g = dE/dy of a token.

    norm_K:        float32, ||X||_2 of every input channel over all tokens read.
    gradient_NK:   float32, |dE/dW|: root mean square over sequences of the gradient of a sequence's mean loss. (The
                   gradient of the mean over all text nearly vanishes in a trained model.)
    hessian_KK:    float32, mean over tokens of |g|^2 x x^T.
    row_share_N:   float32, the share of each row in the sum of all g^2; they sum to 1.
    """

    norm_K: NDArray[np.float32]
    gradient_NK: NDArray[np.float32]
    hessian_KK: NDArray[np.float32]
    row_share_N: NDArray[np.float32]

    def loss_increase_N(self, error_NK: NDArray[np.float32]) -> NDArray[np.float32]:
        """Estimated increase of the mean loss by an error of each row, in nats: 1/2 share_n e_n H e_n^T.

        Second order, with the empirical Fisher matrix as the Hessian, rows independent, and the g^2 of a row and a
        token taken as the row's share of the token's sum. Weighting tokens matters: a few (the first of a sequence)
        have inputs a hundred times as strong as others, and no influence on the loss. K-FAC (Martens and Grosse 2015),
        which averages inputs and gradients apart, finds nearly all of SmolLM2's sensitivity in one matrix because of
        them.
        """
        return 0.5 * self.row_share_N * np.einsum("nk,nk->n", error_NK @ self.hessian_KK, error_NK)


class _Sums:
    """Running sums of one matrix, filled by hooks."""

    def __init__(self, layer: nn.Linear) -> None:
        rows, columns = layer.weight.shape
        self.input_K = torch.zeros(columns)
        self.gradient_NK = torch.zeros(rows, columns)
        self.hessian_KK = torch.zeros(columns, columns)
        self.row_N = torch.zeros(rows)

    def read_output(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        x_TK = inputs[0].detach().flatten(0, -2)
        self.input_K += x_TK.square().sum(0)
        output.register_hook(lambda gradient: self._read_output_gradient(x_TK, gradient.flatten(0, -2)))

    def _read_output_gradient(self, x_TK: Tensor, g_TN: Tensor) -> None:
        # The loss is a mean over the sequence's tokens; their sum has this many times its gradient.
        square_TN = (g_TN * g_TN.shape[0]).square()
        self.hessian_KK.addmm_((x_TK * square_TN.sum(1, keepdim=True)).T, x_TK)
        self.row_N += square_TN.sum(0)

    def read_gradient(self, weight: Tensor) -> None:
        assert weight.grad is not None
        self.gradient_NK.addcmul_(weight.grad, weight.grad)
        weight.grad = None

    def calibration(self, sequences: int, tokens: int) -> Calibration:
        total = self.row_N.sum().clamp_min(torch.finfo(torch.float32).tiny)
        return Calibration(
            norm_K=self.input_K.sqrt().numpy(),
            gradient_NK=self.gradient_NK.div_(sequences).sqrt_().numpy(),
            hessian_KK=self.hessian_KK.div_(tokens).numpy(),
            row_share_N=(self.row_N / total).numpy(),
        )


def calibrate(model: Llama, ids_ST: NDArray[np.int64]) -> Mapping[str, Calibration]:
    """Read the sequences; the result holds every matrix of the model by name."""
    layers = dict(linear_layers(model))
    sums = {name: _Sums(layer) for name, layer in layers.items()}
    hooks = []
    for name, layer in layers.items():
        layer.weight.requires_grad_(True)
        hooks.append(layer.register_forward_hook(sums[name].read_output))
        hooks.append(layer.weight.register_post_accumulate_grad_hook(sums[name].read_gradient))
    try:
        with StageProgress("calibration", len(ids_ST)) as progress:
            for ids_T in torch.from_numpy(ids_ST):
                loss = next_token_loss(model(ids_T[None]), ids_T[None])
                loss.backward()
                progress.advance(f"loss {loss.item():.3f}")
    finally:
        for hook in hooks:
            hook.remove()
        model.requires_grad_(False)
    return {name: one.calibration(len(ids_ST), ids_ST.size) for name, one in sums.items()}
