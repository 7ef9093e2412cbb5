"""Training and its measures."""

from triton_ads.training.train import new_model, train

__all__ = ["new_model", "train"]
