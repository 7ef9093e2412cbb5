"""Recipes of a compression: what is taken, and what is refused with which words."""

from pathlib import Path

import pytest
import yaml

from triton_ads.compression.importance import Criterion
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.compression.recipe import (
    CompressionRecipe,
    CompressionRecipeError,
    load_compression_recipe,
    parse_compression_recipe,
)

FOLDER = Path(__file__).parents[2] / "build" / "recipes"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.compress.yaml")), ids=lambda path: path.name)
def test_the_recipes_that_come_with_the_library(path: Path) -> None:
    assert isinstance(load_compression_recipe(path), CompressionRecipe)


def test_what_is_as_by_default() -> None:
    recipe = parse_compression_recipe({"patterns": ["2:4"]})
    assert recipe.values is Values.INT4 and recipe.criterion is Criterion.GRADIENT and recipe.recovery is None
    assert recipe.choices("model.layers.3.mlp.up_proj") == (Pattern.TWO_OF_FOUR,)
    assert recipe.choices("lm_head") == (Pattern.DENSE,)


def test_choices_go_from_dense_to_sparse_and_the_first_name_that_fits_counts() -> None:
    recipe = parse_compression_recipe(
        {
            "patterns": ["1:4", "dense", "2:4"],
            "budget": {"bits_per_weight": 3},
            "fixed": {"*.layers.0.*.v_proj": "dense", "*.layers.0.*": "2:4"},
        }
    )
    assert recipe.choices("lm_head") == (Pattern.DENSE, Pattern.TWO_OF_FOUR, Pattern.ONE_OF_FOUR)
    assert recipe.choices("model.layers.0.self_attn.v_proj") == (Pattern.DENSE,)
    assert recipe.choices("model.layers.0.self_attn.k_proj") == (Pattern.TWO_OF_FOUR,)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"patterns": []}, "patterns: Tuple should have at least 1 item"),
        ({"patterns": ["3:4"]}, r"patterns.0: Input should be 'dense', '2:4' or '1:4', found '3:4'"),
        ({"patterns": ["2:4", "2:4"], "budget": {"megabytes": 1}}, "name one twice"),
        ({"patterns": ["2:4", "1:4"]}, "a choice needs a budget"),
        ({"patterns": ["2:4"], "budget": {}}, "budget: nothing given; exactly one of"),
        ({"patterns": ["2:4"], "budget": {"megabytes": 9, "bits_per_weight": 3}}, "exactly one of"),
        ({"patterns": ["2:4"], "budget": {"bits_per_weight": 0}}, "greater than 0, found 0"),
        ({"patterns": ["2:4"], "groups": {"size": 48}}, "Input should be 32, 64, 128 or 256, found 48"),
        ({"patterns": ["2:4"], "grops": {}}, "grops: no such field"),
        ({"patterns": ["2:4"], "gradient_share": 1.5}, "less than or equal to 1, found 1.5"),
        ({"patterns": ["2:4"], "recovery": {"steps": 5000}}, "less than or equal to 1000, found 5000"),
        ({"patterns": ["2:4"], "values": "bf16", "budget": {"megabytes": 9}}, "leaves nothing to choose"),
        ("2:4", "Input should be a valid dictionary"),
    ],
)
def test_refusals(document: object, message: str) -> None:
    with pytest.raises(CompressionRecipeError, match=message):
        parse_compression_recipe(document)


def test_text_lies_beside_the_recipe(tmp_path: Path) -> None:
    path = tmp_path / "own.compress.yaml"
    path.write_text(yaml.safe_dump({"patterns": ["2:4"], "calibration": {"text": ["ads.txt", "/data/more.txt"]}}))
    assert load_compression_recipe(path).calibration.text == (tmp_path / "ads.txt", Path("/data/more.txt"))


@pytest.mark.parametrize("content", ["a: [", "- - -"])
def test_what_is_no_recipe(tmp_path: Path, content: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(content)
    with pytest.raises(CompressionRecipeError, match=r"x\.yaml"):
        load_compression_recipe(path)
    with pytest.raises(CompressionRecipeError, match="No such file"):
        load_compression_recipe(tmp_path / "none.yaml")
