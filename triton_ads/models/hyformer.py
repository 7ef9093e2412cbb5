"""The iQIYI ranker: HyFormer's query decoding and boosting on one backbone, under a PLE of labels or scenarios.

    user, context, item, dense ──► EPNet (scenario) ──► N tokens F_1..F_N ─────────────┐
                                                          │                           │
    S histories ──► SwiGLU each ──► K = V ──► mean ──► FFN_s ──► query s               │
                                      │                           │                   │
                                      └────── cross-attention ────┘                   │
                                                    │                                 │
                                            S decoded queries  ──────────►  token mixer (N + S tokens)
                                                                                      │   × layers
                                                                          PLE ──► heads ──► logits

Sources: iQIYI's upgrade of its CVR model (sections 3.2.1 to 3.2.4) and HyFormer (arXiv 2601.12681). Where they are
silent, chosen here:

- the temperature of the attention, its single head, all hidden widths, the width of the dense projections;
- a query's FFN has two layers with SiLU between, on [F_1..F_N flattened, masked mean of the encoded history];
- SwiGLU encoders have no bias; a decoded query has no residual to the query that asked;
- further layers ask with the boosted queries of the layer below (HyFormer: queries are generated at layer 1 only) and
  read the same keys and values: the histories are encoded once;
- the PLE reads all N + S tokens, flattened.
"""

# Legend: M rows, E width of the non-sequence embedding, N non-sequence tokens, S sequences, T events or N + S tokens,
#         D token width, H heads, K labels.

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from pydantic import Field
from torch import Tensor, nn

from triton_ads.models.attention import attend
from triton_ads.models.config import ModelConfig
from triton_ads.models.embedding import Embedding
from triton_ads.models.epnet import EPNet
from triton_ads.models.heads import HeadSelection, head_count
from triton_ads.models.mlp import MLP
from triton_ads.models.ple import PLE
from triton_ads.models.pooling import masked_mean
from triton_ads.models.swiglu import SwiGLU
from triton_ads.models.token_mixer import TokenMixer
from triton_ads.models.tokenizer import Tokenizer
from triton_ads.recipe import Recipe, RecipeError


class HyFormerConfig(ModelConfig):
    """Settings of a `hyformer` tier. token_dim, tokens and layers are the source's; the others are chosen."""

    token_dim: int = Field(default=128, ge=1, le=4096, description="floats of a token; a multiple of N + S")
    tokens: int = Field(default=13, ge=1, le=256, description="N, tokens made of the non-sequence features")
    layers: int = Field(default=1, ge=1, le=64, description="layers of decoding and boosting")
    temperature: float = Field(default=2.0, gt=0, le=1000, description="of the attention; above 1 is flatter")
    dense_width: int = Field(default=16, ge=1, le=1024, description="projection of a side's dense features")
    epnet_hidden: int = Field(default=128, ge=1, le=8192, description="hidden width of EPNet's gate")
    sequence_hidden: int = Field(default=256, ge=1, le=8192, description="hidden width of a history's SwiGLU")
    query_hidden: int = Field(default=128, ge=1, le=8192, description="hidden width of a query's FFN")
    mixer_hidden: int = Field(default=256, ge=1, le=8192, description="hidden width of the per-token SwiGLUs")
    own_experts: int = Field(default=1, ge=0, le=16, description="experts of each head")
    shared_experts: int = Field(default=1, ge=1, le=16, description="experts that all heads share")
    expert_width: int = Field(default=256, ge=1, le=8192, description="width of an expert")
    head_hidden: int = Field(default=128, ge=1, le=8192, description="hidden width of a head")


class QueryGenerator(nn.Module):
    """The global query of one sequence: `FFN(cat(F_1..F_N, mean of the encoded history))` (HyFormer)."""

    def __init__(self, tokens: int, token_dim: int, hidden: int) -> None:
        super().__init__()
        self.hidden = nn.Linear((tokens + 1) * token_dim, hidden)
        self.query = nn.Linear(hidden, token_dim)

    def forward(self, flat_MX: Tensor, mean_MD: Tensor) -> Tensor:
        """float32 [M, N D] and [M, D] -> [M, D]."""
        return self.query(F.silu(self.hidden(torch.cat([flat_MX, mean_MD], dim=1))))


class HyFormer(nn.Module):
    """Row-wise: row m of every input makes row m of the logits.

    Args:
        recipe: what goes in and comes out.
        config: sizes.
        table_rows, scenario_rows: as of `triton_ads.models.build_model`.
        where: place of the config in the recipe, for messages.

    Raises:
        RecipeError: `token_dim` is no multiple of the number of tokens, which mixing needs.
    """

    def __init__(
        self,
        recipe: Recipe,
        config: HyFormerConfig,
        table_rows: dict[str, int],
        scenario_rows: Sequence[int] | None = None,
        where: str = "config",
    ) -> None:
        super().__init__()
        all_tokens = config.tokens + len(recipe.sequences)
        if config.token_dim % all_tokens:
            raise RecipeError(
                f"{where}.token_dim: {config.token_dim} found; a multiple of tokens + sequences = {config.tokens} + "
                f"{len(recipe.sequences)} = {all_tokens} is needed; it would fit with "
                f"tokens: {_fitting_tokens(config, len(recipe.sequences))}"
            )
        self.temperature = config.temperature
        self.embedding = Embedding(recipe, table_rows, config.dense_width)
        width = sum(self.embedding.widths)
        scenario = self.embedding.scenario_width
        self.epnet = EPNet(scenario, width, config.epnet_hidden) if scenario else None
        self.tokenizer = Tokenizer(width, config.tokens, config.token_dim)
        self.encoders = nn.ModuleList(
            SwiGLU(event, config.sequence_hidden, config.token_dim) for event in self.embedding.event_widths
        )
        self.generators = nn.ModuleList(
            QueryGenerator(config.tokens, config.token_dim, config.query_hidden) for _ in recipe.sequences
        )
        self.mixers = nn.ModuleList(
            TokenMixer(all_tokens, config.token_dim, config.mixer_hidden) for _ in range(config.layers)
        )
        self.ple = PLE(
            all_tokens * config.token_dim,
            head_count(recipe),
            config.own_experts,
            config.shared_experts,
            config.expert_width,
        )
        self.heads = nn.ModuleList(MLP(config.expert_width, config.head_hidden, 1) for _ in range(head_count(recipe)))
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
        x_ME = torch.cat(inputs.features, dim=1)
        if self.epnet is not None:
            x_ME = self.epnet(x_ME, inputs.scenario_MG)
        tokens_NMD = self.tokenizer(x_ME)

        # Keys and values, one SwiGLU a sequence.
        histories = [
            (encode(history.events_MTE), history.valid_MT)
            for encode, history in zip(self.encoders, inputs.histories, strict=True)
        ]

        # One query a sequence, made of all non-sequence tokens.
        flat_MX = tokens_NMD.transpose(0, 1).flatten(1)
        queries = [
            generate(flat_MX, masked_mean(history_MTD, valid_MT))
            for generate, (history_MTD, valid_MT) in zip(self.generators, histories, strict=True)
        ]

        for mixer in self.mixers:
            decoded = [
                attend(query_MD, history_MTD, valid_MT, self.temperature).unsqueeze(0)
                for query_MD, (history_MTD, valid_MT) in zip(queries, histories, strict=True)
            ]
            tokens_TMD = mixer(torch.cat([*decoded, tokens_NMD], dim=0))
            queries = [tokens_TMD[s] for s in range(len(histories))]
            tokens_NMD = tokens_TMD[len(histories) :]

        tasks = self.ple(tokens_TMD.transpose(0, 1).flatten(1))
        heads_MH = torch.cat([head(task) for head, task in zip(self.heads, tasks, strict=True)], dim=1)
        return self.selection(heads_MH, inputs.scenario_rows_M)


def _fitting_tokens(config: HyFormerConfig, sequences: int) -> int:
    """The number of tokens nearest to the config's with which mixing works at its `token_dim`."""
    divisors = [d for d in range(sequences + 1, config.token_dim + 1) if config.token_dim % d == 0]
    return min((d - sequences for d in divisors), key=lambda tokens: abs(tokens - config.tokens), default=1)
