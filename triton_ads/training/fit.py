"""The training loop and prediction, for any row-wise model with the inputs of `triton_ads.models.build_model`."""

# Legend: n examples, M rows of a batch, K labels.

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from triton_ads.data.examples import Examples
from triton_ads.progress import StageProgress
from triton_ads.recipe import Training
from triton_ads.training.id_dropout import IdDropout
from triton_ads.training.optimisers import build_optimisers, rate_factor

PREDICTION_BATCH = 1024


def training_positions(examples: Examples, settings: Training) -> NDArray[np.int64]:
    """Positions of the training examples to use: the most recent `max_examples` of the training part."""
    return examples.part("train")[-(settings.max_examples or 0) :]


def fit(model: nn.Module, examples: Examples, settings: Training, what: str) -> None:
    """Train `model` in place on the training part.

    The loss is the binary cross-entropy, summed over labels and averaged over the rows of a batch. Rows are shuffled
    anew in each epoch; a last batch of a single row is left out. The same seed, machine and thread count give the same
    parameters.

    Args:
        model: already initialised; its forward takes the inputs of a batch by name and returns logits [M, K].
        what: name of the stage, for the progress bar.
    """
    random = np.random.default_rng(settings.seed)
    dropout = IdDropout(examples.recipe, settings.oov_rate, random)
    optimisers = build_optimisers(model, settings)
    positions = training_positions(examples, settings)
    starts = [s for s in range(0, len(positions), settings.batch_size) if len(positions) - s > 1]
    steps = settings.epochs * len(starts)
    schedules = [LambdaLR(optimiser, lambda step: rate_factor(step, steps)) for optimiser in optimisers]
    smooth_loss: float | None = None
    model.train()
    with StageProgress(what, steps) as progress:
        for _ in range(settings.epochs):
            shuffled = random.permutation(positions)
            for start in starts:
                batch = examples.batch(shuffled[start : start + settings.batch_size])
                logit_MK = model(**tensors(dropout(batch.inputs)))
                loss = bce_loss(logit_MK, torch.from_numpy(batch.labels))
                for optimiser in optimisers:
                    optimiser.zero_grad(set_to_none=True)
                loss.backward()
                for optimiser, schedule in zip(optimisers, schedules, strict=True):
                    optimiser.step()
                    schedule.step()
                smooth_loss = loss.item() if smooth_loss is None else 0.95 * smooth_loss + 0.05 * loss.item()
                progress.advance(f"loss {smooth_loss:.4f}")
    model.eval()


def bce_loss(logit_MK: Tensor, label_MK: Tensor) -> Tensor:
    """Binary cross-entropy from logits: sum over labels, mean over rows."""
    return F.binary_cross_entropy_with_logits(logit_MK, label_MK, reduction="none").sum(dim=1).mean()


def predict(model: nn.Module, examples: Examples, positions: NDArray[np.int64]) -> NDArray[np.float32]:
    """Logits `float32 [n, K]` of the examples at `positions`, in their order."""
    model.eval()
    with torch.inference_mode():
        parts = [
            model(**tensors(examples.batch(positions[start : start + PREDICTION_BATCH]).inputs)).numpy()
            for start in range(0, len(positions), PREDICTION_BATCH)
        ]
    return np.concatenate(parts)


def tensors(inputs: dict[str, NDArray]) -> dict[str, Tensor]:
    return {name: torch.from_numpy(array) for name, array in inputs.items()}
