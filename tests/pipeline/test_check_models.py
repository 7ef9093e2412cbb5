"""A tier's config is judged before the first stage."""

from typing import Any

import pytest

from tests.support.recipes import tiny_recipe
from triton_ads.pipeline.stages.train import check_models
from triton_ads.recipe import RecipeError


def tier(model: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"tiers": {"standard": {"model": model, "config": config}}}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (tier("wukong", {"layer": 3}), r"tiers\.standard\.config\.layer: .*allowed"),
        (tier("hyformer", {}), r"token_dim: 128 found; .* 13 \+ 2 = 15 is needed; it would fit with tokens: 14"),
    ],
)
def test_a_config_that_cannot_be_used(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        check_models(tiny_recipe(**changes))


@pytest.mark.parametrize("heads", [{}, {"heads": {"by": "scenarios", "scenarios": [1, 2, 3]}}])
def test_a_config_that_can(heads: dict[str, Any]) -> None:
    check_models(tiny_recipe(**tier("hyformer", {"tokens": 14}), **heads))
