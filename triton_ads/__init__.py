"""triton-ads: ad ranking and generative ad targeting on NVIDIA Triton, from ordinary PyTorch models."""

__version__ = "0.1.0"
