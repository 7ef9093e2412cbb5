"""Recipes and models that the tests of this folder share."""

from typing import Any

import torch
from torch import nn

from tests.support.recipes import tiny_recipe
from triton_ads.models import build_model
from triton_ads.recipe import Recipe

ROWS = {"user": 6, "item": 7, "place": 5, "zip": 18}

#: 2 user, 1 context and 2 item features and a dense projection: 8 + 4 + 4 + 8 + 8 + 5 = 37 floats; 3 + 2 tokens.
HYFORMER = {
    "token_dim": 10, "tokens": 3, "dense_width": 5, "epnet_hidden": 6, "sequence_hidden": 7, "query_hidden": 9,
    "mixer_hidden": 11, "expert_width": 8, "head_hidden": 4,
}  # fmt: skip
WUKONG = {
    "token_dim": 6, "fm_tokens": 3, "linear_tokens": 2, "rank": 4, "fm_hidden": 9, "head_hidden": 12, "dense_width": 5,
}  # fmt: skip
BY_SCENARIOS = {"by": "scenarios", "scenarios": [3, 1, 2]}


def ranker_recipe(model: str = "hyformer", config: dict[str, Any] | None = None, **changes: Any) -> Recipe:
    """The tiny recipe with one tier, named after its model."""
    sizes = HYFORMER if model == "hyformer" else WUKONG
    return tiny_recipe(
        **{
            "tiers": {model: {"model": model, "config": {**sizes, **(config or {})}}},
            "router": {"default_tier": model},
            "labels": ["cvr", "dcvr"],
            **changes,
        }
    )


def random_model(recipe: Recipe, seed: int = 0, **kwargs: Any) -> nn.Module:
    """The recipe's only tier with random weights everywhere, biases, norms and constants included."""
    torch.manual_seed(seed)
    (tier,) = recipe.tiers
    model = build_model(recipe, tier, ROWS, **kwargs).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape) * 0.5)
        for name, buffer in model.named_buffers():
            if name.endswith(("mean_D", "std_D")):
                buffer.copy_(torch.rand(buffer.shape) + 0.5)
    return model
