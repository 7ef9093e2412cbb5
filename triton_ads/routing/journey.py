"""A request's user, context and journey as a few numbers: what the learned router decides by.

The same code makes them of the examples when the router is trained and of requests when it serves, from the rows that
the ranking models read, so both see the same.

    dense columns                       as they are
    per sequence                        log(1 + events), share of different values among its events (diversity)
    user and context columns            one of n, for tables of at most BAG_ROWS rows
    per sequence and field              share of events of each value, and the value of the latest event, likewise
    scenario times number               each of the first two lines again, within each scenario

What a long journey is worth depends on where the ad is shown, hence the last line. A user of whom nothing is known has
OOV in the columns of the third line and zeros in the others.
"""

# Legend: M requests, F id columns, D dense columns, L ids of all sequences, X features, T events, G columns in bags,
#         S sequences, C scenarios, N numbers.

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.ids import PAD
from triton_ads.recipe import Recipe

#: A larger table is an identity, not a property: no router learns from the few examples of one user.
BAG_ROWS = 64


@dataclass(frozen=True)
class _Journey:
    """A sequence in the flat ids of all of them."""

    first: int
    length: int
    fields: int
    widest: int  # the field with the largest table: the one of which events differ


class JourneyFeatures:
    """The features of a recipe; `names` says what each is.

    Args:
        table_rows: rows of each table, PAD and OOV included.
    """

    def __init__(self, recipe: Recipe, table_rows: Mapping[str, int]) -> None:
        self.names = [c.feature for c in recipe.dense_columns("user", "context")]
        self._dense = len(self.names)
        self._journeys: list[_Journey] = []
        columns, starts, of_sequence = [], [], []
        bag_names: list[str] = []

        def bag(name: str, table: str, positions: range, sequence: int) -> None:
            for position in positions:
                columns.append(position)
                starts.append(len(bag_names))
                of_sequence.append(sequence)
            bag_names.extend(f"{name}={row}" for row in range(table_rows[table]))

        ids = recipe.id_columns("user", "context")
        for position, column in enumerate(ids):
            if table_rows[str(column.table)] <= BAG_ROWS:
                bag(column.feature, str(column.table), range(position, position + 1), -1)
        first = 0
        for s, sequence in enumerate(recipe.sequences):
            sizes = [table_rows[field.table] for field in sequence.fields]
            width = len(sizes)
            self._journeys.append(_Journey(first, sequence.length, width, int(np.argmax(sizes))))
            self.names += [f"{sequence.name} events", f"{sequence.name} diversity"]
            for j, field in enumerate(sequence.fields):
                if sizes[j] <= BAG_ROWS:
                    start = len(ids) + first + j
                    everywhere = range(start, start + width * sequence.length, width)
                    bag(f"{sequence.name}.{field.name}", field.table, everywhere, s)
                    bag(f"latest {sequence.name}.{field.name}", field.table, everywhere[:1], -1)
            first += width * sequence.length
        self._numbers, self._bags = len(self.names), len(bag_names)
        self._scenario = slice(0, 0)  # of the bags
        if recipe.scenario is not None:
            of_scenario = [i for i, name in enumerate(bag_names) if name.startswith(f"{recipe.scenario.feature}=")]
            if of_scenario:
                self._scenario = slice(of_scenario[0], of_scenario[-1] + 1)
        times = [f"{name} x {number}" for name in bag_names[self._scenario] for number in self.names]
        self.names += bag_names + times
        self._columns_G = np.array(columns, np.intp)
        self._starts_G = np.array(starts, np.int64)
        self._of_sequence_G = np.array(of_sequence, np.intp)

    def __call__(
        self,
        user_ids_MF: NDArray[np.int64],
        user_dense_MD: NDArray[np.float32] | None,
        sequence_ids_ML: NDArray[np.int64] | None,
    ) -> NDArray[np.float32]:
        """float32 [M, X]. Arguments as the ranking models' inputs of these names; None where the recipe has none."""
        requests, numbers, bags = len(user_ids_MF), self._numbers, self._bags
        out_MX = np.zeros((requests, len(self.names)), np.float32)
        if user_dense_MD is not None:
            out_MX[:, : self._dense] = user_dense_MD
        share_MS = np.ones((requests, len(self._journeys) + 1))  # the last: of columns of no sequence
        for s, journey in enumerate(self._journeys):
            assert sequence_ids_ML is not None
            events_M, different_M = _events(journey, sequence_ids_ML)
            at = self._dense + 2 * s
            out_MX[:, at] = np.log1p(events_M)
            share_MS[:, s] = 1 / np.maximum(events_M, 1)
            out_MX[:, at + 1] = different_M * share_MS[:, s]
        ids_MC = user_ids_MF if sequence_ids_ML is None else np.concatenate([user_ids_MF, sequence_ids_ML], axis=1)
        rows_MG = ids_MC[:, self._columns_G]
        at_MG = rows_MG + self._starts_G + (np.arange(requests) * bags)[:, None]
        weight_MG = share_MS[:, self._of_sequence_G] * (rows_MG != PAD)
        counted = np.bincount(at_MG.ravel(), weight_MG.ravel(), minlength=requests * bags)
        out_MX[:, numbers : numbers + bags] = counted.reshape(requests, bags)
        scenario_MC = out_MX[:, numbers : numbers + bags][:, self._scenario]
        times_MCN = scenario_MC[:, :, None] * out_MX[:, None, :numbers]
        out_MX[:, numbers + bags :] = times_MCN.reshape(requests, len(self.names) - numbers - bags)
        return out_MX


def _events(journey: _Journey, ids_ML: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Events of a sequence, and different values of its widest field among them; int64 [M] each."""
    flat = ids_ML[:, journey.first : journey.first + journey.length * journey.fields]
    ids_MTJ = flat.reshape(len(ids_ML), journey.length, journey.fields)
    # An event is padding when all its fields are PAD, which is 0. One field after the other: a reduction over the few
    # fields of each event takes several times as long.
    some_MT = functools.reduce(np.bitwise_or, (ids_MTJ[:, :, j] for j in range(journey.fields)))
    events_M = np.count_nonzero(some_MT, axis=1)
    sorted_MT = np.sort(ids_MTJ[:, :, journey.widest], axis=1)
    new_MT = sorted_MT != PAD
    new_MT[:, 1:] &= sorted_MT[:, 1:] != sorted_MT[:, :-1]
    return events_M, new_MT.sum(axis=1)
