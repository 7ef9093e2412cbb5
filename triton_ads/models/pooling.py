"""Pooling over events or slots, of which only some hold a value."""

# Legend: M rows, T steps (events or slots), D width.

from torch import Tensor


def masked_mean(x_MTD: Tensor, valid_MT: Tensor) -> Tensor:
    """Mean over the valid steps, float32 [M, D]; exactly zero where no step is valid.

    Padding takes no part: neither in the sum nor in the count. (The sources leave it open whether padding counts;
    it must not, or the answer would depend on the padded length.)

    Args:
        x_MTD: float32 values; must be finite at padding.
        valid_MT: bool.
    """
    weight_MT = valid_MT.to(x_MTD.dtype)
    total_MD = (x_MTD * weight_MT.unsqueeze(-1)).sum(dim=1)
    count_M1 = weight_MT.sum(dim=1, keepdim=True).clamp(min=1)
    return total_MD / count_M1
