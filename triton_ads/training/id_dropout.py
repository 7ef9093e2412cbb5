"""How OOV vectors learn: some ids of every training batch are shown to the model as OOV.

The vocabulary holds every id of the training part, so without this no training example would touch row 1, and a
server that meets a new user or ad would answer with noise. Each known id becomes OOV with probability `oov_rate`,
independently and anew in each batch. So the OOV vector of a table learns what to expect of an id of unknown identity,
and the rest of the model learns to do without an identity. Ids that a server can never find OOV are left alone: PAD,
hashed tables, and the scenario, which is answered as a default.
"""

# Legend: M rows, F id columns, L ids of all sequences.

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.ids import FIRST_ROW, OOV
from triton_ads.recipe import Recipe


class IdDropout:
    """Applies to the inputs of a batch, in place of the ids that it changes.

    Args:
        recipe: says which columns can be OOV.
        rate: probability of an id to become OOV.
        random: the source of all choices.
    """

    def __init__(self, recipe: Recipe, rate: float, random: np.random.Generator) -> None:
        self._rate, self._random = rate, random
        scenario = recipe.scenario.feature if recipe.scenario is not None else None
        self._can_be_oov = {
            "user_ids": np.array(
                [_learned(recipe, c.table) and c.feature != scenario for c in recipe.id_columns("user", "context")]
            ),
            "item_ids": np.array([_learned(recipe, c.table) for c in recipe.id_columns("item")]),
            "sequence_ids": np.array(
                [_learned(recipe, f.table) for s in recipe.sequences for _ in range(s.length) for f in s.fields]
            ),
        }

    def __call__(self, inputs: dict[str, NDArray]) -> dict[str, NDArray]:
        """The inputs with some ids replaced; arrays of ids are new, others are passed on."""
        if not self._rate:
            return inputs
        changed = dict(inputs)
        for name, can_be_oov_F in self._can_be_oov.items():
            if name in inputs:
                ids_MF = inputs[name]
                chosen_MF = self._random.random(ids_MF.shape, dtype=np.float32) < self._rate
                changed[name] = np.where(chosen_MF & can_be_oov_F & (ids_MF >= FIRST_ROW), OOV, ids_MF)
        return changed


def _learned(recipe: Recipe, table: str | None) -> bool:
    return recipe.tables[str(table)].kind == "vocabulary"
