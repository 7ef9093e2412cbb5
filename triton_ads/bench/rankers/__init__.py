"""Six rankers as other people write them: ordinary PyTorch, one row a user and an ad, nothing of this project.

The compiler was not made for them; its tests and `triton-ads bench ranking` take them as they are. One file an
architecture, at the sizes of its paper or its authors' code where those are small enough for a processor.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from triton_ads.bench.rankers import deepfm, din, dlrm, mixed_tokens, mmoe, target_attention

Side = Literal["user", "item"]

#: Rows of every table that ids are drawn from.
IDS = 1000


@dataclass(frozen=True)
class Ids:
    """int64 [M, *shape], drawn from the vocabulary; a sequence ends in padding (0) after a random number of events."""

    shape: tuple[int, ...]
    sequence: bool = False

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        ids = torch.randint(1, IDS, (rows, *self.shape), generator=generator)
        if self.sequence:
            lengths = torch.randint(0, self.shape[0] + 1, (rows,), generator=generator)
            known = torch.arange(self.shape[0]) < lengths.unsqueeze(1)
            ids = ids * known.reshape(rows, *known.shape[1:], *[1] * (len(self.shape) - 1))
        return ids


@dataclass(frozen=True)
class Dense:
    """float32 [M, width], standard normal."""

    width: int

    def draw(self, rows: int, generator: torch.Generator) -> Tensor:
        return torch.randn(rows, self.width, generator=generator)


@dataclass(frozen=True)
class Ranker:
    """An architecture and what it reads: inputs by name, the sequences among them, and the side of each by its name."""

    title: str
    build: Callable[[], nn.Module]
    inputs: dict[str, Ids | Dense]

    @property
    def sides(self) -> dict[str, Side]:
        return {name: "item" if name.startswith("item") else "user" for name in self.inputs}

    def module(self, seed: int = 0) -> nn.Module:
        """The model in evaluation mode; weights are seeded and as large as after training, so that scores differ."""
        torch.manual_seed(seed)
        module = self.build()
        for layer in module.modules():
            if isinstance(layer, nn.Linear):
                layer.weight.data *= 2
            if isinstance(layer, nn.BatchNorm1d):
                nn.init.normal_(layer.running_mean, std=0.1)  # type: ignore[arg-type]
                nn.init.uniform_(layer.running_var, 0.5, 1.5)  # type: ignore[arg-type]
            if isinstance(layer, din.Dice):
                nn.init.normal_(layer.alpha, std=0.3)
        return module.eval()

    def draw(self, rows: int, seed: int = 0) -> dict[str, Tensor]:
        """Random rows of every input; sequences have any length, the first row has none and the second a full one."""
        generator = torch.Generator().manual_seed(seed)
        drawn = {name: kind.draw(rows, generator) for name, kind in self.inputs.items()}
        for name, kind in self.inputs.items():
            if isinstance(kind, Ids) and kind.sequence and rows >= 2:
                drawn[name][0] = 0
                drawn[name][1] = drawn[name][1].where(drawn[name][1] != 0, 7)
        return drawn


RANKERS = {
    "din": Ranker(
        "DIN",
        din.DIN,
        {
            "user_ids": Ids((din.USER_FIELDS,)),
            "history_ids": Ids((din.HISTORY, din.FIELDS), sequence=True),
            "item_ids": Ids((din.FIELDS,)),
        },
    ),
    "dlrm": Ranker(
        "DLRM with DCNv2",
        dlrm.DLRM,
        {
            "user_ids": Ids((dlrm.USER_FIELDS,)),
            "user_dense": Dense(dlrm.USER_DENSE),
            "item_ids": Ids((dlrm.ITEM_FIELDS,)),
        },
    ),
    "target_attention": Ranker(
        "towers with target attention",
        target_attention.TargetAttention,
        {
            "user_ids": Ids((target_attention.USER_FIELDS,)),
            "history_ids": Ids((target_attention.HISTORY,), sequence=True),
            "item_ids": Ids((target_attention.ITEM_FIELDS,)),
        },
    ),
    "mixed_tokens": Ranker(
        "transformer over mixed tokens",
        mixed_tokens.MixedTokens,
        {
            "user_ids": Ids((mixed_tokens.USER_FIELDS,)),
            "history_ids": Ids((mixed_tokens.HISTORY,), sequence=True),
            "item_ids": Ids((mixed_tokens.ITEM_FIELDS,)),
        },
    ),
    "deepfm": Ranker(
        "DeepFM",
        deepfm.DeepFM,
        {"user_ids": Ids((deepfm.USER_FIELDS,)), "item_ids": Ids((deepfm.ITEM_FIELDS,))},
    ),
    "mmoe": Ranker(
        "MMoE with bags",
        mmoe.MMoE,
        {
            "user_ids": Ids((mmoe.USER_FIELDS,)),
            "user_bag": Ids((mmoe.USER_BAG,), sequence=True),
            "item_ids": Ids((mmoe.ITEM_FIELDS,)),
            "item_bag": Ids((mmoe.ITEM_BAG,), sequence=True),
        },
    ),
}

__all__ = ["RANKERS", "Dense", "Ids", "Ranker"]
