"""PyTorch rankers, row-wise, one file an architecture."""
