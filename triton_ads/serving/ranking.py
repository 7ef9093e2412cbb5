"""The recipe's ranking rule, applied to the candidates of one request.

A value is what the rule makes of a candidate's scores and columns. Candidates come in the order of their values, the
greatest first. The sort is stable: ties keep the request's order. What is no finite FP32 number, such as the logarithm
of 0 or a product with a bid that nobody gave, becomes LAST: behind all others, whatever the rule would have meant.
"""

# N candidates, K labels, D dense columns, V value columns

import numpy as np
from numpy.typing import NDArray

from triton_ads.recipe import Recipe

#: The lowest FP32 number: unlike NaN and infinity it can be written in JSON.
LAST = np.finfo(np.float32).min


class RankRule:
    """`rank_by` of a recipe."""

    def __init__(self, recipe: Recipe) -> None:
        self._rule = recipe.rank_rule
        dense, values = recipe.dense_columns("item"), recipe.value_columns()
        # A bare label may have the name of an item column; the label goes first.
        places = {
            **{column.feature: (2, i) for i, column in enumerate(values)},
            **{column.feature: (1, i) for i, column in enumerate(dense)},
            **{label: (0, i) for i, label in enumerate(recipe.labels)},
        }
        self._places = {name: places[name] for name in self._rule.names}

    def values(
        self, scores_NK: NDArray[np.float32], dense_ND: NDArray[np.float32], values_NV: NDArray[np.float32]
    ) -> NDArray[np.float32]:
        """The value of every candidate, float32 [N], finite."""
        sources = (scores_NK, dense_ND, values_NV)
        found_N = self._rule({name: sources[source][:, i] for name, (source, i) in self._places.items()})
        with np.errstate(over="ignore"):
            value_N = found_N.astype(np.float32)
        value_N[~np.isfinite(value_N)] = LAST
        return value_N


def best_first(value_N: NDArray[np.float32]) -> NDArray[np.intp]:
    """The order of the candidates: positions, the one of the greatest value first."""
    return np.argsort(-value_N, kind="stable")
