"""Which ids have a row of their own: those of the training part, and of nothing later.

So validation and test meet ids that the model never saw, as a server does. What the OOV vector of a table learns
from is the trainer's business (training/id_dropout.py).
"""

import numpy as np

from triton_ads.data.columns import event_field, raw_columns, sequence_events
from triton_ads.data.log import Log
from triton_ads.data.past import GAP, GAP_EDGES, earlier, gap_bucket
from triton_ads.data.split import TimeSplit
from triton_ads.features.ids import MISSING, raw_id
from triton_ads.features.vocabulary import Tables, Vocabulary
from triton_ads.recipe import Recipe, Sequence, Side


def build_tables(recipe: Recipe, log: Log, split: TimeSplit) -> Tables:
    """A vocabulary for every table of that kind.

    A table's ids are those that the training examples hold in any feature or sequence field of the table, and the
    scenarios that the recipe itself names: those must have a row.
    """
    seen: dict[str, list[np.ndarray]] = {name: [] for name in recipe.tables}
    train = slice(0, split.train_end)
    sides: tuple[tuple[Side, np.ndarray], ...] = (
        ("user", np.unique(log.user[train])),
        ("context", np.arange(split.train_end)),
        ("item", np.unique(log.item[train])),
    )
    for side, rows in sides:
        raw = raw_columns(recipe, log, side)[rows]
        for i, column in enumerate(recipe.id_columns(side)):
            seen[str(column.table)].append(raw[:, i])
    for sequence in recipe.sequences:
        held = sequence_events(log, sequence.name)[train]
        for field in sequence.fields:
            ids = event_field(log, field.name)[train][held]
            seen[field.table].append(_training_gaps(log, split, sequence) if field.name == GAP else ids)
    if recipe.scenario is not None:
        table = next(str(c.table) for c in recipe.id_columns("context") if c.feature == recipe.scenario.feature)
        seen[table].append(np.array([raw_id(s) for s in (recipe.scenario.default, *recipe.heads.scenarios)]))
    vocabularies = {}
    for name, table_spec in recipe.tables.items():
        if table_spec.kind == "vocabulary":
            ids = np.concatenate([np.empty(0, dtype=np.int64), *seen[name]])
            vocabularies[name] = Vocabulary.of(ids[ids != MISSING], name)
    return Tables(recipe, vocabularies)


def _training_gaps(log: Log, split: TimeSplit, sequence: Sequence) -> np.ndarray:
    """Gap buckets between training examples and the events that they see of the sequence.

    The k-th latest event of each example, for each k: a running window instead of a copy of all histories.
    """
    past = earlier(log.user, log.time)
    held = sequence_events(log, sequence.name)[past.order]
    time = log.time[past.order][held]
    held_before = np.concatenate([[0], np.cumsum(held)])
    first, end = (held_before[bound[: split.train_end]] for bound in (past.first, past.end))
    now = log.time[: split.train_end]
    found = np.zeros(len(GAP_EDGES) + 1, dtype=np.bool_)
    for k in range(sequence.length):
        valid = end - 1 - k >= first
        found[gap_bucket(now[valid] - time[end[valid] - 1 - k])] = True
    return np.flatnonzero(found)
