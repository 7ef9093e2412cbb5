"""Wukong: stacked factorization machines (arXiv 2403.02545), with histories pooled or read by attention in every layer.

    features, histories ──► a token each ──► n tokens X
    layer:  Z  = concat(X, reads)                                  reads: what X finds in the histories; or Z = X
            X' = LN(concat(FMB(Z), LCB(Z)) + X)
            FMB(Z) = reshape(MLP(LN(flatten(Z (Z^T Y)))))          n_F tokens; Y [n, k], k << n
            LCB(Z) = W_L Z                                         n_L tokens
    head:   MLP(flatten(X)) ──► logits

The residual goes through a linear map of the tokens where their number changes. Y is learned, or attentive: made of
linearly compressed tokens by an MLP (section 3.6).

Meta's Adaptive Ranking Model (2026) adds sequence processing and attention across layers to this stack, in both of its
branches, and publishes neither. With `sequence: attention` we do this: a history is encoded event by event, once; its
mean is a token of the first layer; in every layer the tokens of that layer ask all histories, so that what a layer has
found decides what the next one reads. With `sequence: pooled` a history is the masked mean of its events, and no order
is read.

Chosen here: the sizes, one hidden layer in each MLP, with ReLU, and everything about attention that is not said above.
"""

# Legend: M rows, n tokens in, r tokens read, z = n + r, o = n_F + n_L tokens out, k rank, c compressed tokens,
#         D token width, K labels.

from collections.abc import Sequence
from typing import Literal, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from triton_ads.models.config import ModelConfig
from triton_ads.models.embedding import Embedding
from triton_ads.models.heads import HeadSelection, head_count
from triton_ads.models.histories import HistoryEncoder, HistoryReader
from triton_ads.models.mlp import MLP
from triton_ads.models.pooling import masked_mean
from triton_ads.recipe import Recipe, RecipeError


class WukongConfig(ModelConfig):
    """Settings of a `wukong` tier. The paper's own sizes are token_dim 128, 8 or 16 tokens a block, rank 24."""

    token_dim: int = Field(default=64, ge=1, le=4096, description="floats of a token")
    layers: int = Field(default=2, ge=1, le=64, description="layers of factorization machines")
    fm_tokens: int = Field(default=8, ge=1, le=256, description="n_F, tokens made by the factorization machine")
    linear_tokens: int = Field(default=8, ge=1, le=256, description="n_L, tokens made by the linear compression")
    rank: int = Field(default=16, ge=1, le=1024, description="k of the optimised factorization machine")
    fm_hidden: int = Field(default=256, ge=1, le=8192, description="hidden width of the block's MLP")
    head_hidden: int = Field(default=128, ge=1, le=8192, description="hidden width of the head")
    dense_width: int = Field(default=16, ge=1, le=1024, description="projection of a side's dense features")
    y: Literal["learned", "attentive"] = Field(default="learned", description="Y is a parameter, or made of the tokens")
    y_tokens: int = Field(default=2, ge=1, le=256, description="compressed tokens that an attentive Y is made of")
    y_hidden: int = Field(default=64, ge=1, le=8192, description="hidden width of an attentive Y's MLP")
    sequence: Literal["pooled", "attention"] = Field(
        default="pooled", description="a history is its mean, or read by attention in every layer"
    )
    sequence_hidden: int = Field(default=128, ge=1, le=8192, description="hidden width of a history's SwiGLU")
    queries: int = Field(default=2, ge=1, le=256, description="queries of a layer to each history")
    heads: int = Field(default=1, ge=1, le=256, description="of the attention; a divisor of token_dim")
    temperature: float = Field(default=1.0, gt=0, le=1000, description="of the attention; above 1 is flatter")

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.token_dim % self.heads:
            raise ValueError(f"heads: {self.heads} does not divide token_dim {self.token_dim}")
        return self


class WukongLayer(nn.Module):
    """One layer, float32 [M, n, D] and the tokens that it read [M, r, D] -> [M, o, D].

    Args:
        tokens, read: n and r; a layer that reads nothing is given None.
        config: sizes.
    """

    def __init__(self, tokens: int, config: WukongConfig, read: int = 0) -> None:
        super().__init__()
        tokens_out, rank = config.fm_tokens + config.linear_tokens, config.rank
        self.fm_tokens, self.token_dim = config.fm_tokens, config.token_dim
        seen = tokens + read
        # Maps of tokens act on the transposed X: linear layers over its last axis.
        self.y = nn.Linear(seen, rank, bias=False) if config.y == "learned" else AttentiveY(seen, config)
        self.fm_norm = nn.LayerNorm(seen * rank)
        self.fm_mlp = MLP(seen * rank, config.fm_hidden, config.fm_tokens * config.token_dim)
        self.compress = nn.Linear(seen, config.linear_tokens, bias=False)
        self.residual = nn.Linear(tokens, tokens_out, bias=False) if tokens != tokens_out else None
        self.norm = nn.LayerNorm(config.token_dim)

    def forward(self, x_MnD: Tensor, read_MrD: Tensor | None = None) -> Tensor:
        x_MDn = x_MnD.transpose(1, 2)
        z_MzD, z_MDz = x_MnD, x_MDn
        if read_MrD is not None:
            z_MzD = torch.cat([x_MnD, read_MrD], dim=1)
            z_MDz = z_MzD.transpose(1, 2)
        interactions_Mzk = torch.matmul(z_MzD, self.y(z_MDz))
        fm_MfD = self.fm_mlp(self.fm_norm(interactions_Mzk.flatten(1))).unflatten(1, (self.fm_tokens, self.token_dim))
        linear_MlD = self.compress(z_MDz).transpose(1, 2)
        residual_MoD = x_MnD if self.residual is None else self.residual(x_MDn).transpose(1, 2)
        return self.norm(torch.cat([fm_MfD, linear_MlD], dim=1) + residual_MoD)


class AttentiveY(nn.Module):
    """`Z^T Y` with `Y = reshape(MLP(flatten(W Z)))`, float32 [M, D, z] -> [M, D, k] (section 3.6)."""

    def __init__(self, tokens: int, config: WukongConfig) -> None:
        super().__init__()
        self.tokens, self.rank = tokens, config.rank
        self.compress = nn.Linear(tokens, config.y_tokens, bias=False)
        self.mlp = MLP(config.y_tokens * config.token_dim, config.y_hidden, tokens * config.rank)

    def forward(self, z_MDz: Tensor) -> Tensor:
        compressed_McD = self.compress(z_MDz).transpose(1, 2)
        y_Mzk = self.mlp(compressed_McD.flatten(1)).unflatten(1, (self.tokens, self.rank))
        return torch.matmul(z_MDz, y_Mzk)


class Wukong(nn.Module):
    """Row-wise: row m of every input makes row m of the logits. Arguments as of `HyFormer`.

    Raises:
        RecipeError: `sequence: attention` without a sequence in the recipe.
    """

    def __init__(
        self,
        recipe: Recipe,
        config: WukongConfig,
        table_rows: dict[str, int],
        scenario_rows: Sequence[int] | None = None,
        where: str = "config",
    ) -> None:
        super().__init__()
        self.attention = config.sequence == "attention"
        if self.attention and not recipe.sequences:
            raise RecipeError(f"{where}.sequence: attention found; the recipe has no sequences, pooled is allowed")
        self.embedding = Embedding(recipe, table_rows, config.dense_width)
        sequences, dim = len(recipe.sequences), config.token_dim
        widths = self.embedding.widths + ([] if self.attention else self.embedding.event_widths)
        self.projections = nn.ModuleList(nn.Linear(width, dim) for width in widths)
        tokens = [len(self.embedding.widths) + sequences]
        tokens += [config.fm_tokens + config.linear_tokens] * config.layers
        read = sequences * config.queries if self.attention else 0
        self.layers = nn.ModuleList(WukongLayer(n, config, read) for n in tokens[:-1])
        self.head = MLP(tokens[-1] * dim, config.head_hidden, head_count(recipe))
        self.selection = HeadSelection(recipe, table_rows, scenario_rows)
        if self.attention:
            self.encoders = nn.ModuleList(
                HistoryEncoder(width, sequence.length, config.sequence_hidden, dim)
                for width, sequence in zip(self.embedding.event_widths, recipe.sequences, strict=True)
            )
            self.readers = nn.ModuleList(
                HistoryReader(n, sequences, config.queries, dim, config.heads, config.temperature) for n in tokens[:-1]
            )

    def forward(
        self,
        user_ids: Tensor,
        item_ids: Tensor,
        user_dense: Tensor | None = None,
        sequence_ids: Tensor | None = None,
        item_dense: Tensor | None = None,
    ) -> Tensor:
        """Logits float32 [M, K]; inputs as of `triton_ads.models.build_model`."""
        inputs = self.embedding(user_ids, item_ids, user_dense, sequence_ids, item_dense)
        histories = inputs.histories
        if self.attention:
            histories = [encode(history) for encode, history in zip(self.encoders, histories, strict=True)]
        vectors = inputs.features + [masked_mean(history.events_MTE, history.valid_MT) for history in histories]
        tokens = [project(v) for project, v in zip(self.projections, vectors, strict=False)]
        x_MnD = torch.stack(tokens + vectors[len(tokens) :], dim=1)  # the mean of an encoded history is a token already
        for i, layer in enumerate(self.layers):
            x_MnD = layer(x_MnD, self.readers[i](x_MnD, histories) if self.attention else None)
        return self.selection(self.head(x_MnD.flatten(1)), inputs.scenario_rows_M)
