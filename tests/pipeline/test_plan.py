"""Which stages a change of the recipe concerns."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.plan import plan
from triton_ads.recipe import Recipe, load_recipe, parse_recipe

TINY = Path(__file__).parents[1] / "recipes" / "tiny.yaml"
ALL = [
    "data",
    "train standard",
    "train high",
    "baselines",
    "calibrate standard",
    "calibrate high",
    "export standard",
    "export high",
    "release",
    "repository",
]
LAST = ["release", "repository"]


def recipe_digests(recipe: Recipe, var: Path) -> dict[str, dict[str, str]]:
    """Stage -> its inputs that come from the recipe."""
    return {
        stage.name: {name: digest for name, digest in stage.inputs().items() if name.startswith("recipe ")}
        for stage in plan(recipe, Layout(var, recipe.name))
    }


@pytest.mark.parametrize(
    ("path", "value", "concerned"),
    [
        (["training", "epochs"], 3, ["train standard", "train high", "baselines", *LAST]),
        (["tiers", "high", "config", "layers"], 2, ["train high", "export high", *LAST]),
        (["serving", "tile"], 32, ["export standard", "export high", *LAST]),
        (["serving", "deadline_ms"], 50, LAST),
        (["router", "min_history"], 7, LAST),
        (["rank_by"], "dcvr", LAST),
        (["rank_by"], "cvr * popularity", LAST),
        (["calibration", "method"], "platt", ["calibrate standard", "calibrate high", *LAST]),
        (["calibration", "tolerance"], 0.3, LAST),
        (["data", "train_fraction"], 0.7, ALL),
        (["sequences", 0, "length"], 9, ALL),
        (["scenario", "default"], "night", ALL),
        (["tables", "item", "width"], 16, ALL),
    ],
)
def test_a_change_concerns_the_stages_that_read_it(
    tmp_path: Path, path: list[Any], value: object, concerned: list[str]
) -> None:
    document = yaml.safe_load(TINY.read_text())
    before = recipe_digests(parse_recipe(document), tmp_path)
    at = document
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    after = recipe_digests(parse_recipe(document), tmp_path)
    assert list(before) == ALL
    assert [name for name in before if before[name] != after[name]] == concerned


def test_only_the_changed_tier_is_concerned(tmp_path: Path, tiny: Recipe) -> None:
    standard = recipe_digests(tiny, tmp_path)["train standard"]
    assert "recipe tiers.standard" in standard
    assert "recipe tiers.high" not in standard


def test_a_learned_router_is_a_stage_of_what_it_was_learned_from(tmp_path: Path) -> None:
    recipe = load_recipe(TINY.with_name("tiny_adaptive.yaml"))
    stages = {stage.name: stage for stage in plan(recipe, Layout(tmp_path, recipe.name))}
    assert list(stages)[-3:] == ["router", "release", "repository"]
    of_tiers = {f"{kind}/{tier}" for kind in ("train", "calibrate", "export") for tier in ("standard", "high")}
    needs = {str(folder.relative_to(tmp_path / "work" / recipe.name)) for folder in stages["router"].needs}
    assert needs == {"data", *of_tiers}
    assert stages["router"].folder in stages["release"].needs
    # What it may spend and when it may be asked is for the server to know.
    fields = {name for name in stages["router"].inputs() if name.startswith("recipe router")}
    assert fields == {"recipe router.default_tier", "recipe router.high_tier"}


@pytest.mark.parametrize(
    ("path", "value", "concerned"),
    [
        (["events"], 9, ["identifiers", "generator", "pack", *LAST]),
        (["identifiers", "length"], 2, ["identifiers", "generator", "pack", *LAST]),
        (["query_words"], 4, ["generator", "pack", *LAST]),
        (["training", "epochs"], 2, ["generator", "pack", *LAST]),
        (["weights"], "2:4 int4", ["pack", *LAST]),
        (["beam"], 12, ["pack", *LAST]),
    ],
)
def test_a_change_of_the_target_trains_no_ranker(
    tmp_path: Path, path: list[Any], value: object, concerned: list[str]
) -> None:
    document = yaml.safe_load(TINY.with_name("tiny_target.yaml").read_text())
    before = recipe_digests(parse_recipe(document), tmp_path)
    assert list(before)[-5:] == ["identifiers", "generator", "pack", *LAST]
    at = document["target"]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    after = recipe_digests(parse_recipe(document), tmp_path)
    assert [name for name in before if before[name] != after[name]] == concerned
