"""Where a Log comes from: for every `data.source` of a recipe the module that reads it.

A module is imported when a recipe names its source, and a build depends on that one only. It has

    read_log(recipe, downloads) -> Log
"""

import importlib
from pathlib import Path

from triton_ads.data.log import Log
from triton_ads.recipe import Recipe

#: `data.source` -> module.
SOURCES = {
    "movielens-100k": "triton_ads.data.movielens",
    "synthetic": "triton_ads.data.synthetic",
    "parquet": "triton_ads.data.parquet",
}
#: Packages that a source needs beside NumPy.
PACKAGES = {"parquet": ("pyarrow",)}


def read_log(recipe: Recipe, downloads: Path) -> Log:
    """The log of the recipe's data.

    Args:
        downloads: where published files lie or will lie.

    Raises:
        DataError: the data cannot be fetched or read, or is not what it must be.
    """
    log: Log = importlib.import_module(SOURCES[recipe.data.source]).read_log(recipe, downloads)
    return log
