"""A request's user: looked up in the store, or encoded from the features that the request sends."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.encoder import FeatureEncoder, SequenceEncoder
from triton_ads.features.ids import MISSING, OOV
from triton_ads.features.vocabulary import Tables
from triton_ads.recipe import Recipe
from triton_ads.serving import counters as count
from triton_ads.serving.checks import Tensors, check_finite, check_length
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.store import UserStore

# F id columns and D dense columns of user and context, L ids of all sequences, S sequences


@dataclass(frozen=True)
class UserRow:
    """The user and context side of one request, as the engines read it; each with Triton's batch of 1 in front."""

    rows_1F: NDArray[np.int64]
    floats_1D: NDArray[np.float32]
    sequences_1L: NDArray[np.int64]


@dataclass(frozen=True)
class EncodedUser(UserRow):
    """What the router knows besides."""

    history: int  # events known of the user


class UserEncoder:
    """Turns the user's and the context's tensors of a request into rows and floats."""

    def __init__(self, recipe: Recipe, tables: Tables, store: UserStore, counters: Counters) -> None:
        self._store, self._counters = store, counters
        self._user = FeatureEncoder(recipe, tables, "user")
        self._context = FeatureEncoder(recipe, tables, "context")
        self._sequences = SequenceEncoder(recipe, tables)
        self._user_ids, self._user_dense = len(recipe.id_columns("user")), len(recipe.dense_columns("user"))
        self._context_ids, self._context_dense = (
            len(recipe.id_columns("context")),
            len(recipe.dense_columns("context")),
        )
        self._sequence_count = len(recipe.sequences)
        self._width = recipe.sequence_width
        missing = np.full((1, self._context_ids), MISSING, np.int64)
        self._no_context = self._context.encode(missing)

    def encode(self, tensors: Tensors) -> EncodedUser:
        """Rows, floats and sequences of one request.

        Raises:
            RequestError: a tensor has a length that is not allowed, or a value that is not finite.
        """
        user_features, user_dense = tensors["user_features"][0], tensors["user_dense"][0]
        context_features, context_dense = tensors["context_features"][0], tensors["context_dense"][0]
        lengths, sequences = tensors["sequence_lengths"][0], tensors["sequences"][0]
        check_length("user_features", user_features, 0, self._user_ids)
        check_length("user_dense", user_dense, 0, self._user_dense)
        check_length("context_features", context_features, 0, self._context_ids)
        check_length("context_dense", context_dense, 0, self._context_dense)
        check_length("sequence_lengths", lengths, 0, self._sequence_count)

        user_id = int(tensors["user_id"][0, 0])
        position = None if user_id == MISSING else self._store.find(user_id)
        if position is None and not len(user_features):
            self._counters.add(count.COLD_STARTS)
        rows_1F = np.empty((1, self._user_ids + self._context_ids), np.int64)
        self._user_rows(user_features, position, rows_1F[:, : self._user_ids])
        self._context_rows(context_features, rows_1F[:, self._user_ids :])
        floats_1D = np.zeros((1, self._user_dense + self._context_dense), np.float32)
        self._dense(user_dense, position, context_dense, floats_1D[0])
        sequences_1L, history = self._history(lengths, sequences, position)
        return EncodedUser(rows_1F, floats_1D, sequences_1L, history)

    def _user_rows(self, raw_F: NDArray[np.int64], position: int | None, rows_1F: NDArray[np.int64]) -> None:
        if len(raw_F):
            encoded = self._user.encode(raw_F[None])
            self._counters.add(count.OOV, "user", amount=encoded.oov)
            rows_1F[:] = encoded.rows
        elif position is not None:
            rows_1F[0] = self._store.rows_nF[position]
        else:
            rows_1F[:] = OOV

    def _context_rows(self, raw_F: NDArray[np.int64], rows_1F: NDArray[np.int64]) -> None:
        encoded = self._context.encode(raw_F[None]) if len(raw_F) else self._no_context
        self._counters.add(count.OOV, "context", amount=encoded.oov)
        self._counters.add(count.SCENARIO_DEFAULTS, amount=encoded.scenario_defaulted)
        rows_1F[:] = encoded.rows

    def _dense(
        self,
        user: NDArray[np.float32],
        position: int | None,
        context: NDArray[np.float32],
        floats_D: NDArray[np.float32],
    ) -> None:
        """User columns, then context columns; `floats_D` holds zeros."""
        if len(user):
            check_finite("user_dense", user)
            floats_D[: self._user_dense] = user
        elif position is not None:
            floats_D[: self._user_dense] = self._store.dense_nD[position]
        if len(context):
            check_finite("context_dense", context)
            floats_D[self._user_dense :] = context

    def _history(
        self, lengths_S: NDArray[np.int32], raw: NDArray[np.int64], position: int | None
    ) -> tuple[NDArray[np.int64], int]:
        """Rows of the sequences [1, L], and the number of events known: of the longest one where they are sent."""
        if len(lengths_S) or len(raw):
            try:
                encoded = self._sequences.encode(lengths_S, raw)
            except ValueError as error:
                raise RequestError(Cause.WRONG_LENGTH, str(error)) from None
            self._counters.add(count.OOV, "sequence", amount=encoded.oov)
            self._counters.add(count.TRUNCATED, amount=encoded.truncated)
            return encoded.rows[None], int(lengths_S.max(initial=0))
        if position is not None:
            return self._store.sequences_nL[position : position + 1].astype(np.int64), int(
                self._store.history_n[position]
            )
        return np.zeros((1, self._width), np.int64), 0
