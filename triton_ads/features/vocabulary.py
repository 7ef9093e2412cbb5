"""Vocabularies: which raw ids a table knows, and the row of each.

A vocabulary is the sorted array of a table's raw ids; the row of an id is `2 + position`. Rows 0 and 1 are PAD (no
value, the raw id MISSING) and OOV (a value that is not in the array). The file is a plain .npy that is memory-mapped,
so that all processes of a server share its pages.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triton_ads.features.ids import FIRST_ROW, MISSING, OOV, PAD, hashed_rows
from triton_ads.recipe import Recipe


class VocabularyError(ValueError):
    """A vocabulary that cannot be used; the message names the file or table and what is wrong."""


class Vocabulary:
    """The ids of one table.

    Args:
        ids: int64 [n], strictly increasing, without MISSING.

    Raises:
        VocabularyError: `ids` is anything else.
    """

    def __init__(self, ids: NDArray[np.int64], name: str = "vocabulary") -> None:
        if ids.ndim != 1 or ids.dtype != np.dtype("<i8"):
            raise VocabularyError(f"{name}: {ids.dtype} of shape {list(ids.shape)} found, int64 of one axis needed")
        if not np.all(ids[1:] > ids[:-1]):
            at = int(np.argmin(ids[1:] > ids[:-1]))
            raise VocabularyError(f"{name}: {ids[at + 1]} follows {ids[at]}; ids must be strictly increasing")
        # A plain view: a memmap object costs microseconds in each of the small operations of a look-up.
        self.ids = ids.view(np.ndarray)
        at = int(self.ids.searchsorted(MISSING))
        if at < len(self.ids) and self.ids[at] == MISSING:
            raise VocabularyError(f'{name}: {MISSING} means "no value" and cannot be a real id')

    @classmethod
    def of(cls, raw: ArrayLike, name: str = "vocabulary") -> Self:
        """The vocabulary of all distinct ids of `raw`, which may be in any order and shape."""
        return cls(np.unique(np.asarray(raw, dtype="<i8")), name)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Memory-map a vocabulary file.

        Raises:
            VocabularyError: missing, no .npy file of int64, or not a vocabulary.
        """
        try:
            ids = np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError, EOFError) as error:
            raise VocabularyError(f"{path}: {error}") from None
        return cls(ids, str(path))

    def save(self, path: Path) -> None:
        np.save(path, self.ids, allow_pickle=False)

    def __len__(self) -> int:
        return len(self.ids)

    def rows(self, raw: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of `raw` (any shape): 2 + position, OOV where unknown, PAD where MISSING.

        >>> Vocabulary.of([30, 10, 20]).rows(np.array([10, 30, 11, -1]))
        array([2, 4, 1, 0])
        """
        if not len(self.ids):
            return np.where(raw == MISSING, PAD, OOV)
        position = self.ids.searchsorted(raw)
        known = self.ids.take(position, mode="clip") == raw
        rows = np.where(known, position + FIRST_ROW, OOV)
        rows[raw == MISSING] = PAD
        return rows


class Tables:
    """All tables of a recipe, with their vocabularies.

    Args:
        recipe: says which tables there are and of which kind.
        vocabularies: one for each table of kind vocabulary, and no other.

    Raises:
        VocabularyError: a vocabulary is missing or too many.
    """

    def __init__(self, recipe: Recipe, vocabularies: Mapping[str, Vocabulary]) -> None:
        wanted = {name for name, table in recipe.tables.items() if table.kind == "vocabulary"}
        if set(vocabularies) != wanted:
            raise VocabularyError(f"vocabularies of {sorted(vocabularies)} found, of {sorted(wanted)} needed")
        self._vocabularies = dict(vocabularies)
        self._hashed = {name: table.rows for name, table in recipe.tables.items() if table.rows is not None}
        #: Rows of each table in the recipe's order, PAD and OOV included.
        self.table_rows: dict[str, int] = {
            name: FIRST_ROW + (self._hashed[name] if name in self._hashed else len(vocabularies[name]))
            for name in recipe.tables
        }

    @classmethod
    def load(cls, recipe: Recipe, folder: Path) -> Self:
        """Memory-map `folder/TABLE.npy` of every vocabulary table."""
        return cls(
            recipe,
            {n: Vocabulary.load(folder / f"{n}.npy") for n, t in recipe.tables.items() if t.kind == "vocabulary"},
        )

    def save(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for name, vocabulary in self._vocabularies.items():
            vocabulary.save(folder / f"{name}.npy")

    def rows(self, table: str, raw: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows of `raw` (int64, any shape) in `table`. A hashed table knows every id: it has no OOV."""
        vocabulary = self._vocabularies.get(table)
        return vocabulary.rows(raw) if vocabulary is not None else hashed_rows(raw, self._hashed[table])

    def raw(self, table: str, row: int) -> int | None:
        """The raw id of a row: the other way round. None for PAD, OOV, and a hashed table, where many ids share one."""
        vocabulary = self._vocabularies.get(table)
        return int(vocabulary.ids[row - FIRST_ROW]) if vocabulary is not None and row >= FIRST_ROW else None

    @property
    def digest(self) -> str:
        """sha256 of what turns raw ids into rows: every table's name and its ids or its hashed size."""
        digest = hashlib.sha256()
        for name in sorted(self.table_rows):
            if name in self._hashed:
                digest.update(f"{name} hashed {self._hashed[name]}\n".encode())
            else:
                ids = self._vocabularies[name].ids
                digest.update(f"{name} vocabulary {len(ids)}\n".encode() + ids.astype("<i8", copy=False).tobytes())
        return digest.hexdigest()
