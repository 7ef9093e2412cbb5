"""Wukong, small: stacked factorization machines (arXiv 2403.02545), with pooled histories.

    features, pooled histories ──► a projection each ──► n tokens X
    layer:  X' = LN(concat(FMB(X), LCB(X)) + X)
            FMB(X) = reshape(MLP(LN(flatten(X (X^T Y)))))     n_F tokens; Y [n, k] learned, k << n
            LCB(X) = W_L X                                    n_L tokens
    head:   MLP(flatten(X)) ──► logits

The residual goes through a linear map of the tokens where their number changes. Chosen here: a history is the masked
mean of its events (the standard tier reads no order); the sizes; one hidden layer in each MLP, with ReLU.
"""

# Legend: M rows, n tokens in, o = n_F + n_L tokens out, k rank, D token width, H heads, K labels.

from collections.abc import Sequence

import torch
from pydantic import Field
from torch import Tensor, nn

from triton_ads.models.config import ModelConfig
from triton_ads.models.embedding import Embedding
from triton_ads.models.heads import HeadSelection, head_count
from triton_ads.models.mlp import MLP
from triton_ads.models.pooling import masked_mean
from triton_ads.recipe import Recipe


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


class WukongLayer(nn.Module):
    """One layer, float32 [M, n, D] -> [M, o, D]."""

    def __init__(self, tokens: int, config: WukongConfig) -> None:
        super().__init__()
        tokens_out = config.fm_tokens + config.linear_tokens
        self.fm_tokens, self.token_dim = config.fm_tokens, config.token_dim
        # Maps of tokens act on the transposed X: linear layers over its last axis.
        self.y = nn.Linear(tokens, config.rank, bias=False)
        self.fm_norm = nn.LayerNorm(tokens * config.rank)
        self.fm_mlp = MLP(tokens * config.rank, config.fm_hidden, config.fm_tokens * config.token_dim)
        self.compress = nn.Linear(tokens, config.linear_tokens, bias=False)
        self.residual = nn.Linear(tokens, tokens_out, bias=False) if tokens != tokens_out else None
        self.norm = nn.LayerNorm(config.token_dim)

    def forward(self, x_MnD: Tensor) -> Tensor:
        x_MDn = x_MnD.transpose(1, 2)
        interactions_Mnk = torch.matmul(x_MnD, self.y(x_MDn))
        fm_MfD = self.fm_mlp(self.fm_norm(interactions_Mnk.flatten(1))).unflatten(1, (self.fm_tokens, self.token_dim))
        linear_MlD = self.compress(x_MDn).transpose(1, 2)
        residual_MoD = x_MnD if self.residual is None else self.residual(x_MDn).transpose(1, 2)
        return self.norm(torch.cat([fm_MfD, linear_MlD], dim=1) + residual_MoD)


class Wukong(nn.Module):
    """Row-wise: row m of every input makes row m of the logits. Arguments as of `HyFormer`."""

    def __init__(
        self,
        recipe: Recipe,
        config: WukongConfig,
        table_rows: dict[str, int],
        scenario_rows: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        self.embedding = Embedding(recipe, table_rows, config.dense_width)
        widths = self.embedding.widths + self.embedding.event_widths
        self.projections = nn.ModuleList(nn.Linear(width, config.token_dim) for width in widths)
        tokens = [len(widths)] + [config.fm_tokens + config.linear_tokens] * config.layers
        self.layers = nn.ModuleList(WukongLayer(n, config) for n in tokens[:-1])
        self.head = MLP(tokens[-1] * config.token_dim, config.head_hidden, head_count(recipe))
        self.selection = HeadSelection(recipe, table_rows, scenario_rows)

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
        pooled = [masked_mean(history.events_MTE, history.valid_MT) for history in inputs.histories]
        vectors = inputs.features + pooled
        x_MnD = torch.stack([project(v) for project, v in zip(self.projections, vectors, strict=True)], dim=1)
        for layer in self.layers:
            x_MnD = layer(x_MnD)
        return self.selection(self.head(x_MnD.flatten(1)), inputs.scenario_rows_M)
