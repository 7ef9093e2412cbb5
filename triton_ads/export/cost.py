"""What a tier costs on the building machine: the figures by which the router judges a deadline.

Processor time of one thread, in which ONNX Runtime runs: what else the machine does while building is left out.
"""

import time
from collections.abc import Callable

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from triton_ads.export.onnx_session import run_session
from triton_ads.manifest import CostModel

_TILES = (1, 2, 4, 8)
_REPEATS = 7

Arrays = dict[str, NDArray[np.generic]]


def measure_cost(
    user_session: onnxruntime.InferenceSession,
    item_session: onnxruntime.InferenceSession,
    user: Arrays,
    item: Arrays,
    tile: int,
) -> CostModel:
    """Medians of a few runs, and the line `fixed_ms + tile_ms * tiles` through those of the item part.

    Args:
        user: one row of every input of the user part.
        item: one row of every input of the item part.
        tile: candidates in a tile.
    """
    state = run_session(user_session, user)
    medians = []
    for tiles in _TILES:
        batch = {
            name: np.ascontiguousarray(np.broadcast_to(value[:1, None], (tiles, tile, *value.shape[1:])))
            for name, value in item.items()
        }
        batch |= {"state": state, "user_of_tile": np.zeros(tiles, np.int64)}
        medians.append(_median_ms(lambda batch=batch: run_session(item_session, batch)))  # type: ignore[misc]
    tile_ms, fixed_ms = np.polyfit(_TILES, medians, 1)
    user_ms = _median_ms(lambda: run_session(user_session, user))
    return CostModel(fixed_ms=max(0.0, float(fixed_ms)), tile_ms=max(0.0, float(tile_ms)), user_ms=user_ms)


def _median_ms(run: Callable[[], object]) -> float:
    run()
    times = []
    for _ in range(_REPEATS):
        start = time.thread_time()
        run()
        times.append(time.thread_time() - start)
    return float(np.median(times)) * 1e3
