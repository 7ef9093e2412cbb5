"""The answer: a ranking. docs/wire.md has the contract."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.client.connection import text

# N candidates, K labels


@dataclass(frozen=True)
class Ranking:
    """Candidates of one request, best first, and how they were ranked.

    >>> ranking = Ranking(np.array([7, 5]), np.array([[0.9, 0.2], [0.4, 0.1]], np.float32),
    ...                   np.array([0.9, 0.4], np.float32), np.array([1, 0]), "standard", "default",
    ...                   "0123456789ab", ("cvr", "dcvr"))
    >>> len(ranking), next(iter(ranking))[0], ranking.label("dcvr").tolist()[0] < 0.3
    (2, 7, True)
    """

    ids: NDArray[np.int64]  # [N], best first; ties keep the request's order
    scores: NDArray[np.float32]  # [N, K], probability of each label
    rank_values: NDArray[np.float32]  # [N], what ordered them: the recipe's `rank_by`, never rising
    positions: NDArray[np.int32]  # [N], where each stood in the request
    tier: str  # the tier that answered
    reason: str  # why it was chosen
    release: str  # the release that answered
    labels: tuple[str, ...] = ()  # names of the K columns of `scores`, where the client was told

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[tuple[int, NDArray[np.float32]]]:
        """(id, scores [K]), best first."""
        return zip(self.ids.tolist(), self.scores, strict=True)

    def label(self, name: str) -> NDArray[np.float32]:
        """Scores [N] of one label.

        Raises:
            KeyError: the label is not known.
        """
        if name not in self.labels:
            raise KeyError(f"label {name!r} is not known; known: {', '.join(self.labels) or 'none'}")
        return self.scores[:, self.labels.index(name)]


def parse_ranking(outputs: Mapping[str, NDArray[Any]], labels: tuple[str, ...]) -> Ranking:
    """The ranking in the outputs of the model `rank`, whose first axis is Triton's batch of 1."""
    ids_N = outputs["ranked_ids"][0]
    return Ranking(
        ids=ids_N,
        scores=outputs["scores"][0].reshape(len(ids_N), -1) if len(ids_N) else outputs["scores"][0],
        rank_values=outputs["rank_values"][0],
        positions=outputs["positions"][0],
        tier=text(outputs["tier"]),
        reason=text(outputs["reason"]),
        release=text(outputs["release"]),
        labels=labels,
    )
