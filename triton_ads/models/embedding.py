"""Embedding: ids of all features and sequences become vectors, with one gather a side.

The vectors come out of the gather side by side, in the order of the id columns; a feature is a slice of them. The
vector of PAD is zero whatever the table holds, and gets no gradient.
"""

# Legend: M rows, F id columns, X gathered floats, u floats of a physical row, U physical rows, D dense columns,
#         W width of a feature, L ids of all sequences, T slots or events, J ids of one, E width of an event,
#         G width of the scenario.

from typing import NamedTuple

import torch
from torch import Tensor, nn

from triton_ads.features.ids import PAD
from triton_ads.models.dense import DenseProjection
from triton_ads.models.physical_table import Addresses, PhysicalTable
from triton_ads.models.pooling import masked_mean
from triton_ads.models.spans import Span, feature_spans, history_spans
from triton_ads.recipe import Recipe


class History(NamedTuple):
    """One sequence of every row, most recent event first."""

    events_MTE: Tensor  # float32; the vectors of an event's fields, concatenated
    valid_MT: Tensor  # bool; an event is padding when all its fields are PAD


class Embedded(NamedTuple):
    """What a model computes with."""

    features: list[Tensor]  # float32 [M, W] each: user, context, item, then the dense projections (user, item)
    histories: list[History]  # in the recipe's order
    scenario_MG: Tensor | None  # float32; the vector of the scenario, where the recipe has one
    scenario_rows_M: Tensor | None  # int64; its row


class UserSide(NamedTuple):
    """The user's and the context's part of `Embedded`."""

    features: list[Tensor]  # float32 [M, W] each
    dense: list[Tensor]  # one projection, float32 [M, W], or none
    histories: list[History]
    scenario_MG: Tensor | None
    scenario_rows_M: Tensor | None


class ItemSide(NamedTuple):
    """The item's part of `Embedded`."""

    features: list[Tensor]  # float32 [M, W] each
    dense: list[Tensor]  # one projection, float32 [M, W], or none


class Embedding(nn.Module):
    """All inputs of a row-wise model as vectors.

    Args:
        recipe: features, sequences, tables and scenario.
        table_rows: rows of each table, PAD and OOV included.
        dense_width: width to which the dense columns of each side are projected.
    """

    def __init__(self, recipe: Recipe, table_rows: dict[str, int], dense_width: int) -> None:
        super().__init__()
        self.user_spans = feature_spans(recipe, "user", "context")
        self.item_spans = feature_spans(recipe, "item")
        self.history_spans = history_spans(recipe, after=self.user_spans)
        scenario = recipe.scenario.feature if recipe.scenario is not None else None
        self.scenario_span = next((span for span in self.user_spans if span.name == scenario), None)

        layout = PhysicalTable.of(recipe, table_rows)
        self.table = nn.Embedding(layout.rows, layout.unit)
        self.user_addresses = Addresses(layout, _tables(self.user_spans + self.history_spans))
        self.item_addresses = Addresses(layout, _tables(self.item_spans))
        user_dense, item_dense = len(recipe.dense_columns("user", "context")), len(recipe.dense_columns("item"))
        self.user_dense = DenseProjection(user_dense, dense_width) if user_dense else None
        self.item_dense = DenseProjection(item_dense, dense_width) if item_dense else None

        #: Columns of each input; None is given for an input without columns.
        self.columns = {
            "user_ids": self.user_spans[-1].ids.stop,
            "item_ids": self.item_spans[-1].ids.stop,
            "user_dense": user_dense,
            "sequence_ids": recipe.sequence_width,
            "item_dense": item_dense,
        }
        #: Width of each of `Embedded.features`.
        self.widths = [span.width for span in self.user_spans + self.item_spans]
        self.widths += [dense_width for columns in (user_dense, item_dense) if columns]
        #: Width of an event of each history.
        self.event_widths = [span.width for span in self.history_spans]
        #: Width of the scenario's vector, 0 without one.
        self.scenario_width = self.scenario_span.width if self.scenario_span is not None else 0

    def forward(
        self,
        user_ids_MF: Tensor,
        item_ids_MF: Tensor,
        user_dense_MD: Tensor | None,
        sequence_ids_ML: Tensor | None,
        item_dense_MD: Tensor | None,
    ) -> Embedded:
        """Inputs as of `triton_ads.models.build_model`.

        Raises:
            ValueError: an input has other columns than the recipe says.
        """
        user = self.user_side(user_ids_MF, user_dense_MD, sequence_ids_ML)
        item = self.item_side(item_ids_MF, item_dense_MD)
        features = [*user.features, *item.features, *user.dense, *item.dense]
        return Embedded(features, user.histories, user.scenario_MG, user.scenario_rows_M)

    def user_side(self, user_ids_MF: Tensor, user_dense_MD: Tensor | None, sequence_ids_ML: Tensor | None) -> UserSide:
        """What the user and the context say: one gather for their features and all histories."""
        self._check("user_ids", user_ids_MF)
        self._check("user_dense", user_dense_MD)
        self._check("sequence_ids", sequence_ids_ML)
        if sequence_ids_ML is not None:
            user_ids_MF = torch.cat([user_ids_MF, sequence_ids_ML], dim=1)
        user_ids_MF, user_MX = self._gather(self.user_addresses, user_ids_MF)
        features = [_feature(span, user_ids_MF, user_MX) for span in self.user_spans]
        histories = [_history(span, user_ids_MF, user_MX) for span in self.history_spans]
        dense = _project(self.user_dense, user_dense_MD)
        scenario = self.scenario_span
        if scenario is None:
            return UserSide(features, dense, histories, None, None)
        vector_MG, rows_M = user_MX[:, scenario.floats], user_ids_MF[:, scenario.ids.start]
        return UserSide(features, dense, histories, vector_MG, rows_M)

    def item_side(self, item_ids_MF: Tensor, item_dense_MD: Tensor | None) -> ItemSide:
        """What the item says: one gather."""
        self._check("item_ids", item_ids_MF)
        self._check("item_dense", item_dense_MD)
        item_ids_MF, item_MX = self._gather(self.item_addresses, item_ids_MF)
        features = [_feature(span, item_ids_MF, item_MX) for span in self.item_spans]
        return ItemSide(features, _project(self.item_dense, item_dense_MD))

    def _gather(self, addresses: Addresses, ids_MF: Tensor) -> tuple[Tensor, Tensor]:
        """Known ids, and the vectors of all columns side by side, float32 [M, X]."""
        ids_MF = addresses.known(ids_MF)
        rows_MU, valid_MU = addresses(ids_MF)
        vectors_MUu = self.table(rows_MU)
        return ids_MF, (vectors_MUu * valid_MU.unsqueeze(-1).to(vectors_MUu.dtype)).flatten(1)

    def _check(self, name: str, tensor: Tensor | None) -> None:
        needed, found = self.columns[name], 0 if tensor is None else tensor.shape[1]
        if found != needed:
            raise ValueError(f"{name}: {found} columns found, {needed} needed{'' if needed else ': give None'}")


def _tables(spans: list[Span]) -> list[str]:
    return [table for span in spans for _ in range(span.slots) for table in span.tables]


def _project(projection: DenseProjection | None, dense_MD: Tensor | None) -> list[Tensor]:
    return [projection(dense_MD)] if projection is not None and dense_MD is not None else []


def _feature(span: Span, ids_MF: Tensor, vectors_MX: Tensor) -> Tensor:
    """float32 [M, W]: the vector of an id, or the mean over the ids of a multi-valued feature that are not PAD."""
    if span.slots == 1:
        return vectors_MX[:, span.floats]
    vectors_MTW = vectors_MX[:, span.floats].unflatten(1, (span.slots, span.width))
    return masked_mean(vectors_MTW, ids_MF[:, span.ids] != PAD)


def _history(span: Span, ids_MF: Tensor, vectors_MX: Tensor) -> History:
    events_MTE = vectors_MX[:, span.floats].unflatten(1, (span.slots, span.width))
    ids_MTJ = ids_MF[:, span.ids].unflatten(1, (span.slots, len(span.tables)))
    # Known ids are not negative: the sum is PAD's 0 only where every one is PAD.
    return History(events_MTE, ids_MTJ.sum(dim=2) != PAD)
