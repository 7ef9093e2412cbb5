"""A tier's config: defaults, and errors that name the key, the value and what is allowed."""

from typing import Any

import pytest

from tests.models.support import ROWS, ranker_recipe
from triton_ads.models import HyFormer, HyFormerConfig, Wukong, build_model
from triton_ads.recipe import RecipeError


def test_the_defaults_are_the_sources() -> None:
    config = HyFormerConfig()
    assert (config.token_dim, config.tokens, config.layers) == (128, 13, 1)


def test_a_tier_is_built_by_its_models_name() -> None:
    assert isinstance(build_model(ranker_recipe("hyformer"), "hyformer", ROWS), HyFormer)
    assert isinstance(build_model(ranker_recipe("wukong"), "wukong", ROWS), Wukong)


@pytest.mark.parametrize(
    ("model", "config", "message"),
    [
        ("hyformer", {"width": 64}, r"tiers\.hyformer\.config\.width: not known, found 64; allowed: .*token_dim, "),
        ("hyformer", {"layers": 0}, r"config\.layers: .* greater than or equal to 1, found 0"),
        ("hyformer", {"tokens": "13"}, r"config\.tokens: .* integer, found '13'"),
        ("hyformer", {"temperature": 0}, r"config\.temperature: .* greater than 0, found 0"),
        ("hyformer", {"temperature": float("nan")}, r"config\.temperature: .*, found nan"),
        ("wukong", {"tokens": 13}, r"tiers\.wukong\.config\.tokens: not known, found 13; allowed: .*rank"),
        ("wukong", {"rank": True}, r"config\.rank: .* integer, found True"),
    ],
)  # fmt: skip
def test_a_wrong_config_is_refused(model: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        build_model(ranker_recipe(model, config), model, ROWS)


def test_every_wrong_key_is_named() -> None:
    with pytest.raises(RecipeError) as error:
        build_model(ranker_recipe("wukong", {"depth": 3, "rank": 0}), "wukong", ROWS)
    assert "config.depth" in str(error.value)
    assert "config.rank" in str(error.value)


def test_an_unknown_tier_is_refused() -> None:
    with pytest.raises(RecipeError, match="tiers: 'high' is not known; allowed: wukong"):
        build_model(ranker_recipe("wukong"), "high", ROWS)
