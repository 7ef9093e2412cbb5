"""What the maker of a data set knows of every example, kept beside the examples: to judge predictions by, never to
make them. One file for each entry of `Log.truth`; a data set that knows nothing has none."""

# Legend: n examples.

from pathlib import Path

import numpy as np
from numpy.typing import NDArray


def save_truth(truth: dict[str, NDArray[np.float32]], folder: Path) -> None:
    """Write `folder/NAME.npy` for every entry."""
    for name, values in truth.items():
        folder.mkdir(parents=True, exist_ok=True)
        np.save(folder / f"{name}.npy", values, allow_pickle=False)


def load_truth(folder: Path) -> dict[str, NDArray[np.float32]]:
    """Name -> float32 [n], in the order of the examples; empty where the data knows nothing."""
    return {path.stem: np.load(path, allow_pickle=False) for path in sorted(folder.glob("*.npy"))}
