"""Raw ids become rows: the same code for a request inside Triton and for a whole data set.

What every raw id becomes, by its column's table:

    MISSING (-1)                    PAD (0): no value; its vector does not take part in a pooled mean
    not in the vocabulary           OOV (1): any other unknown id, negative and huge ones included; counted
    in the vocabulary               2 + position
    any id of a hashed table        2 + xxh64 mod rows

One column is special: the scenario. Its model parts (gates, heads) exist for known scenarios only, so an unknown or
missing scenario becomes `scenario.default`, and is counted apart from OOV.
"""

# Legend: n examples or candidates, F id columns, S sequences, L ids of all sequences of a user.

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from triton_ads.features.ids import FIRST_ROW, MISSING, OOV, raw_id
from triton_ads.features.vocabulary import Tables, VocabularyError
from triton_ads.recipe import Recipe, Side


class EncodedFeatures(NamedTuple):
    rows: NDArray[np.int64]  # [n, F]
    oov: int  # ids answered as OOV
    scenario_defaulted: int  # examples whose scenario was unknown or missing


class EncodedSequences(NamedTuple):
    rows: NDArray[np.int64]  # [L]
    oov: int  # ids answered as OOV, of the events kept
    truncated: int  # events dropped because their sequence was longer than the recipe's


class _Columns:
    """Look-ups for a fixed list of columns: one per table, not one per column."""

    def __init__(self, tables: Tables, table_of_column: list[str]) -> None:
        self.width = len(table_of_column)
        self._tables = tables
        self._groups = [
            (table, _as_slice([i for i, t in enumerate(table_of_column) if t == table]))
            for table in dict.fromkeys(table_of_column)
        ]

    def rows(self, raw_nF: NDArray[np.int64]) -> NDArray[np.int64]:
        rows_nF = np.empty(raw_nF.shape, dtype=np.int64)
        for table, columns in self._groups:
            rows_nF[:, columns] = self._tables.rows(table, raw_nF[:, columns])
        return rows_nF


def _as_slice(positions: list[int]) -> slice | NDArray[np.intp]:
    """A slice where the positions are equally spaced: NumPy reads it without building an index."""
    step = positions[1] - positions[0] if len(positions) > 1 else 1
    if positions == list(range(positions[0], positions[-1] + 1, step)):
        return slice(positions[0], positions[-1] + 1, step)
    return np.array(positions, dtype=np.intp)


class FeatureEncoder:
    """Encodes the id columns of some sides, `recipe.id_columns(*sides)`.

    Raises:
        VocabularyError: `scenario.default` or one of `heads.scenarios` has no row.
    """

    def __init__(self, recipe: Recipe, tables: Tables, *sides: Side) -> None:
        columns = recipe.id_columns(*sides)
        self._columns = _Columns(tables, [str(c.table) for c in columns])
        self._name = "+".join(sides)
        self._scenario_column: int | None = None
        if recipe.scenario is not None and "context" in sides:
            names = [c.feature for c in columns]
            self._scenario_column = names.index(recipe.scenario.feature)
            self._default_row = scenario_rows(recipe, tables, [recipe.scenario.default])[0]
            heads = scenario_rows(recipe, tables, recipe.heads.scenarios)
            self._allowed_rows = np.array(heads) if recipe.heads.by == "scenarios" else None

    def encode(self, raw_nF: NDArray[np.int64]) -> EncodedFeatures:
        """Rows of the raw ids `int64 [n, F]`, any n.

        Raises:
            ValueError: the shape or the dtype is another.
        """
        if raw_nF.ndim != 2 or raw_nF.shape[1] != self._columns.width or raw_nF.dtype != np.int64:
            raise ValueError(
                f"{self._name} ids: {raw_nF.dtype} of shape {list(raw_nF.shape)} found, "
                f"int64 of shape [n, {self._columns.width}] needed"
            )
        rows_nF = self._columns.rows(raw_nF)
        defaulted = 0
        if self._scenario_column is not None:
            scenario_n = rows_nF[:, self._scenario_column]
            if self._allowed_rows is None:
                unknown_n = scenario_n < FIRST_ROW
            else:
                unknown_n = ~np.isin(scenario_n, self._allowed_rows)
            defaulted = int(np.count_nonzero(unknown_n))
            scenario_n[unknown_n] = self._default_row
        return EncodedFeatures(rows_nF, int(np.count_nonzero(rows_nF == OOV)), defaulted)


def scenario_rows(recipe: Recipe, tables: Tables, scenarios: Sequence[int | str]) -> list[int]:
    """Rows of raw scenarios in the table of the recipe's scenario feature.

    Raises:
        ValueError: the recipe has no scenario.
        VocabularyError: a scenario has no row of its own.
    """
    if recipe.scenario is None:
        raise ValueError(f"recipe {recipe.name}: no `scenario`")
    (table,) = [str(f.table) for f in recipe.features if f.name == recipe.scenario.feature]
    rows = tables.rows(table, np.array([raw_id(s) for s in scenarios], dtype=np.int64)).tolist()
    for scenario, row in zip(scenarios, rows, strict=True):
        if row < FIRST_ROW:
            raise VocabularyError(f"scenario {scenario!r} is not in the vocabulary of table {table}")
    return rows


class SequenceEncoder:
    """Encodes the histories of one user into `recipe.sequence_width` rows.

    The rows lie as the raw ids do: sequence after sequence, event by event with the most recent first, field by
    field. Each sequence takes `length x fields` places; the places after its last event hold PAD. An event beyond
    `length` is dropped: the most recent ones are kept.

        lengths [2, 1], two fields each     a1 b1 a2 b2 | c1 d1
        rows, length 3 and 2                a1 b1 a2 b2 0 0 | c1 d1 0 0
    """

    def __init__(self, recipe: Recipe, tables: Tables) -> None:
        self._lengths = [s.length for s in recipe.sequences]
        self._fields = [len(s.fields) for s in recipe.sequences]
        self._columns = _Columns(tables, [f.table for s in recipe.sequences for _ in range(s.length) for f in s.fields])

    def pad(self, lengths_S: ArrayLike, raw: NDArray[np.int64]) -> tuple[NDArray[np.int64], int]:
        """Raw ids in the layout of the rows, MISSING where there is no event, and the number of events dropped.

        Args:
            lengths_S: events of each sequence, any integers.
            raw: int64 [sum of lengths x fields], one sequence after the other.

        Raises:
            ValueError: not one length a sequence, a negative length, or lengths that do not add up to `raw`.
        """
        lengths = [int(n) for n in np.asarray(lengths_S).tolist()]
        if len(lengths) != len(self._lengths):
            raise ValueError(f"sequence_lengths: {len(lengths)} found, {len(self._lengths)} needed, one a sequence")
        if min(lengths, default=0) < 0:
            raise ValueError(f"sequence_lengths: {lengths} found, a length must be 0 or more")
        needed = sum(n * fields for n, fields in zip(lengths, self._fields, strict=True))
        if raw.ndim != 1 or raw.dtype != np.int64 or len(raw) != needed:
            raise ValueError(
                f"sequences: {raw.dtype} of shape {list(raw.shape)} found, int64 of shape [{needed}] needed "
                f"for sequence_lengths {lengths}"
            )
        padded_L = np.full(self._columns.width, MISSING, dtype=np.int64)
        read, write, dropped = 0, 0, 0
        for sent, length, fields in zip(lengths, self._lengths, self._fields, strict=True):
            kept = min(sent, length)
            padded_L[write : write + kept * fields] = raw[read : read + kept * fields]
            read, write, dropped = read + sent * fields, write + length * fields, dropped + sent - kept
        return padded_L, dropped

    def encode(self, lengths_S: ArrayLike, raw: NDArray[np.int64]) -> EncodedSequences:
        """Rows `int64 [L]` of one user's raw histories; arguments and errors as of `pad`."""
        padded_L, dropped = self.pad(lengths_S, raw)
        rows_L = self.encode_padded(padded_L[None])[0]
        return EncodedSequences(rows_L, int(np.count_nonzero(rows_L == OOV)), dropped)

    def encode_padded(self, raw_nL: NDArray[np.int64]) -> NDArray[np.int64]:
        """Rows `int64 [n, L]` of many users' histories that are padded with MISSING already."""
        return self._columns.rows(raw_nL)
