"""The identifier tree: every ad is a path of tokens from the root to a leaf.

    tree.py       the tree as arrays, and what a search asks of it
    branching.py  how wide each level is
    cluster.py    what ads are like -> identifiers
    build.py      identifiers -> tree
    file.py       a tree in a folder, memory-mapped
    blocked.py    ads that nobody must be answered with, at once
    withheld.py   ... and one request's own

Building, files and masks need NumPy only: the server reads trees, and a build makes them.
"""

from triton_ads.trie.blocked import Blocked, Living
from triton_ads.trie.build import TreeError, build_tree
from triton_ads.trie.file import load_tree, save_tree
from triton_ads.trie.tree import Children, Tree
from triton_ads.trie.withheld import Withheld

__all__ = ["Blocked", "Children", "Living", "Tree", "TreeError", "Withheld", "build_tree", "load_tree", "save_tree"]
