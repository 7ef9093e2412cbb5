"""A tree in a folder: one .npy file an array, memory-mapped, and what it belongs to.

FOLDER/tree.json   {"version", "catalogue", "level_start"}
       token.npy first.npy leaf.npy ad.npy
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.trie.build import TreeError
from triton_ads.trie.tree import Tree

VERSION = 1
_ARRAYS: dict[str, tuple[str, ...]] = {
    "token": ("uint16", "uint32"),
    "first": ("int32",),
    "leaf": ("int32",),
    "ad": ("int64",),
}


def save_tree(tree: Tree, folder: Path) -> None:
    """Write `tree` into `folder`, which is made if it does not exist."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in _ARRAYS:
        np.save(folder / f"{name}.npy", getattr(tree, name), allow_pickle=False)
    head = {"version": VERSION, "catalogue": tree.catalogue, "level_start": tree.level_start}
    (folder / "tree.json").write_text(json.dumps(head) + "\n")


def load_tree(folder: Path, catalogue: str | None = None) -> Tree:
    """Memory-map what `save_tree` wrote, and check that its parts fit each other.

    Args:
        catalogue: the digest that the tree must have.

    Raises:
        TreeError: missing, damaged, of another version, or of another catalogue.
    """
    try:
        head = json.loads((folder / "tree.json").read_text())
        version, found = head["version"], str(head["catalogue"])
        starts = tuple(int(start) for start in head["level_start"])
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise TreeError(f"{folder}: no tree: {error}") from None
    if version != VERSION:
        raise TreeError(f"{folder}: a tree of version {version}, this program reads version {VERSION}")
    if catalogue is not None and found != catalogue:
        raise TreeError(f"{folder}: the tree is of catalogue {found[:12]}, needed is {catalogue[:12]}")
    arrays = {name: _load(folder / f"{name}.npy", types) for name, types in _ARRAYS.items()}
    tree = Tree(**arrays, level_start=starts, catalogue=found)
    _check(tree, folder)
    return tree


def _load(path: Path, types: tuple[str, ...]) -> NDArray[Any]:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise TreeError(f"{path}: {error}") from None
    if array.ndim != 1 or array.dtype.name not in types:
        raise TreeError(f"{path}: {array.dtype} of shape {list(array.shape)} found, {' or '.join(types)} [n] needed")
    # A plain view: a memmap object costs microseconds in each of the small operations of a search.
    return array.view(np.ndarray)


def _check(tree: Tree, folder: Path) -> None:
    """A search indexes with what it reads here, so nothing may lead out of an array."""
    starts, n = np.array(tree.level_start), tree.level_start[-1] if tree.level_start else 0
    parts = {
        "level_start": len(starts) >= 3 and starts[:2].tolist() == [0, 1] and bool((np.diff(starts) > 0).all()),
        "token": len(tree.token) == n - 1,
        "first": len(starts) >= 3
        and len(tree.first) == starts[-2] + 1
        and tree.first[0] == 1
        and tree.first[-1] == n
        and bool((np.diff(tree.first) >= 0).all()),
        "leaf": len(tree.leaf) > 0
        and bool((np.diff(tree.leaf) > 0).all())
        and bool(tree.leaf[0] > 0 and tree.leaf[-1] < n),
        "ad": len(tree.ad) == len(tree.leaf),
    }
    wrong = [name for name, right in parts.items() if not right]
    if not wrong and not bool(tree.is_leaf(tree.leaf.astype(np.int64)).all()):
        wrong = ["leaf"]
    if not wrong and int(np.diff(tree.first).astype(bool).sum()) + tree.ads != n:
        wrong = ["leaf"]
    if not wrong and not _tokens_rise(tree):
        wrong = ["token"]
    if not wrong and not _ads_differ(tree):
        wrong = ["ad"]
    if wrong:
        raise TreeError(f"{folder}: {', '.join(wrong)} does not fit a tree; build it again")


def _tokens_rise(tree: Tree) -> bool:
    """Whether siblings have tokens of their own, growing: `node_of` searches them."""
    rises = tree.token[1:] > tree.token[:-1]
    first = tree.first[1:-1]  # first children but the root's, whose token follows that of another parent's child
    rises[first[first < tree.nodes] - 2] = True
    return bool(rises.all())


def _ads_differ(tree: Tree) -> bool:
    """Whether every ad has one leaf: of an ad with two, only one would be blocked."""
    ad_A = np.sort(tree.ad)
    return bool((ad_A[1:] != ad_A[:-1]).all())
