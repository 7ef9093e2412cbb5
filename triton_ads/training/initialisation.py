"""How parameters start: the rules that made TorchRec models match their TensorFlow originals (facts of iQIYI).

    matrices            Glorot-uniform: U(+-sqrt(6 / (fan_in + fan_out))) (Glorot and Bengio 2010, Eq. 16)
    embedding tables    uniform unit scaling: U(+-sqrt(3 / rows)) (TensorFlow's uniform_unit_scaling_initializer)
    biases              0
    scales of norms     as constructed, 1

A stack of matrices [H, in, out], one per token, is Glorot-uniform in each matrix. The physical table of a model counts
as one table.
"""

import torch
from torch import nn


def initialise(model: nn.Module, seed: int) -> None:
    """Set every parameter of `model` in place; the same seed gives the same parameters on every worker."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in model.modules():
            for name, parameter in module.named_parameters(recurse=False):
                if name.endswith("bias"):
                    parameter.zero_()
                elif parameter.ndim >= 2:
                    if isinstance(module, nn.Embedding):
                        limit = (3 / parameter.shape[0]) ** 0.5
                    else:
                        # [out, in] of nn.Linear or [.., in, out] of a stack: the sum does not mind the order.
                        limit = (6 / (parameter.shape[-2] + parameter.shape[-1])) ** 0.5
                    parameter.uniform_(-limit, limit, generator=generator)
