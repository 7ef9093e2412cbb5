"""Two optimisers, as in the sources: AdamW for matrices, Adagrad for embedding tables.

The learning rates of the recipe hold for a batch of REFERENCE_BATCH and grow with the batch: a batch of twice the
size makes half the steps, each twice as long (the linear rule, Goyal et al. 2017). They are the highest of the run:
they grow over the first WARM_UP of the steps and fall linearly to nothing at the end, without which a single epoch
ends wherever its last batches threw it (measured on MovieLens: the calibration error of `dcvr` falls by half).
"""

import torch
from torch import nn

from triton_ads.recipe import Training

REFERENCE_BATCH = 128
WARM_UP = 0.05


def build_optimisers(model: nn.Module, settings: Training) -> list[torch.optim.Optimizer]:
    """Optimisers that share out all parameters of `model`; weight decay is for matrices only."""
    scale = settings.batch_size / REFERENCE_BATCH
    # By identity: several modules may share one table.
    sparse = {id(module.weight): module.weight for module in model.modules() if isinstance(module, nn.Embedding)}
    tables = list(sparse.values())
    dense = [p for p in model.parameters() if id(p) not in sparse]
    matrices, vectors = [p for p in dense if p.ndim >= 2], [p for p in dense if p.ndim < 2]
    optimisers: list[torch.optim.Optimizer] = []
    if dense:
        groups = [{"params": matrices, "weight_decay": settings.weight_decay}, {"params": vectors, "weight_decay": 0.0}]
        optimisers.append(torch.optim.AdamW(groups, lr=settings.learning_rate_dense * scale))
    if tables:
        optimisers.append(torch.optim.Adagrad(tables, lr=settings.learning_rate_sparse * scale))
    return optimisers


def rate_factor(step: int, steps: int) -> float:
    """Share of the learning rate at `step` (from 0) of `steps`.

    >>> [round(rate_factor(step, 40), 3) for step in (0, 1, 2, 20, 39)]
    [0.5, 1.0, 1.0, 0.526, 0.026]
    """
    warm = max(1, round(WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    return (steps - step) / max(1, steps - warm)  # asked once more behind the last step, which may be the first
