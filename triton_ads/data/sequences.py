"""The recipe's sequences as event tables, with the window of each example and of each user."""

# Legend: n events, U users, E events of a sequence, F fields of an event.

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.columns import event_field, sequence_events
from triton_ads.data.log import Log
from triton_ads.data.past import GAP, GAP_EDGES, History, earlier
from triton_ads.features.vocabulary import Tables
from triton_ads.recipe import Recipe, Sequence


@dataclass(frozen=True)
class Windows:
    """A sequence of all users, and where in it the past of each example and of each user lies."""

    history: History
    example_first: NDArray[np.int32]  # [n]
    example_end: NDArray[np.int32]  # [n]
    user_first: NDArray[np.int32]  # [U]
    user_end: NDArray[np.int32]  # [U] all events of the user


def build_windows(recipe: Recipe, log: Log, tables: Tables, sequence: Sequence) -> Windows:
    """Event table and windows of one sequence of the recipe.

    Raises:
        DataError: the log has no such sequence or field.
    """
    past = earlier(log.user, log.time)
    held = sequence_events(log, sequence.name)[past.order]
    events = past.order[held]
    names = [field.name for field in sequence.fields]
    gap_field = names.index(GAP) if GAP in names else None
    rows = [tables.rows(field.table, event_field(log, field.name)[events]) for field in sequence.fields]
    gap_rows = np.empty(0, dtype=np.int64)
    if gap_field is not None:
        gap_rows = tables.rows(sequence.fields[gap_field].table, np.arange(len(GAP_EDGES) + 1))
    # Windows are counted in the events of all users; those that the sequence does not hold drop out.
    held_before = np.concatenate([[0], np.cumsum(held)]).astype(np.int32)
    user_bounds = np.searchsorted(log.user[past.order], np.arange(len(log.user_ids) + 1))
    return Windows(
        history=History(
            rows_EF=np.stack(rows, axis=1).astype(np.int32),
            time_E=log.time[events],
            gap_field=gap_field,
            gap_rows=gap_rows,
        ),
        example_first=held_before[past.first],
        example_end=held_before[past.end],
        user_first=held_before[user_bounds[:-1]],
        user_end=held_before[user_bounds[1:]],
    )
