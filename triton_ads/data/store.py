"""The store that the router reads: every known user and item as the model sees them when the log has ended.

    store/users/ids.npy        int64 [n], sorted
    store/users/rows.npy       int32 [n, Fu], user side
    store/users/dense.npy      float32 [n, Du], user side
    store/users/sequences.npy  int32 [n, L]
    store/users/history.npy    int32 [n], events known of the user; may exceed the sequences' length
    store/items/ids.npy        int64 [n], sorted
    store/items/rows.npy       int32 [n, Fi]
    store/items/dense.npy      float32 [n, Di]
    store/items/values.npy     float32 [n, V], NaN where an item has none
    store/titles.json          {"item id": "title"}

The snapshot is one second after the last event, so that every event lies strictly before it: the gaps of the
sequences are measured to that moment. A user or item of which training knew nothing has OOV rows, as when the client
sent its features.
"""

import json
from pathlib import Path

import numpy as np

from triton_ads.data.columns import final_dense_columns, value_columns
from triton_ads.data.log import Log
from triton_ads.data.sequences import Windows
from triton_ads.recipe import Recipe


def write_store(
    recipe: Recipe,
    log: Log,
    user_rows: np.ndarray,
    item_rows: np.ndarray,
    windows: dict[str, Windows],
    folder: Path,
) -> None:
    """Write the files above.

    Args:
        user_rows: int [U, Fu] of the log's users, in their order.
        item_rows: int [I, Fi] of the log's items, in their order.
        windows: of every sequence of the recipe.
        folder: `store`; made if it does not exist.
    """
    n = len(log.user_ids)
    snapshot = np.full(n, log.time[-1] + 1)
    sequences = [
        windows[s.name]
        .history.latest(windows[s.name].user_first, windows[s.name].user_end, snapshot, s.length)
        .reshape(n, -1)
        for s in recipe.sequences
    ]
    files = {
        "users/ids": log.user_ids,
        "users/rows": user_rows.astype(np.int32),
        "users/dense": final_dense_columns(recipe, log, "user"),
        "users/sequences": np.concatenate([np.empty((n, 0)), *sequences], axis=1).astype(np.int32),
        "users/history": np.bincount(log.user, minlength=n).astype(np.int32),
        "items/ids": log.item_ids,
        "items/rows": item_rows.astype(np.int32),
        "items/dense": final_dense_columns(recipe, log, "item"),
        "items/values": value_columns(recipe, log),
    }
    for name, array in files.items():
        path = folder / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, array, allow_pickle=False)
    titles = {str(item): log.titles[item] for item in log.item_ids.tolist()}
    (folder / "titles.json").write_text(json.dumps(titles, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
