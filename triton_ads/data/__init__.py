"""Datasets become examples: the only place that knows a dataset's files."""

from triton_ads.data.download import DataError
from triton_ads.data.examples import Batch, Examples
from triton_ads.data.prepare import prepare

__all__ = ["Batch", "DataError", "Examples", "prepare"]
