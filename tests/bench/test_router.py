"""The report of `bench router`: what it says of curves that are known."""

import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from triton_ads.bench.router import of_seed
from triton_ads.bench.router_plot import draw_plot
from triton_ads.bench.router_report import RouterReport
from triton_ads.recipe import load_recipe

ROOT = Path(__file__).parents[2]


def curve(*aucs: float) -> list[dict[str, Any]]:
    shares = (0.0, 0.5, 1.0)
    return [
        {"share": s, "flops": 1e6 * (1 + 9 * s), "auc": [a, a - 0.1], "log_loss": 0.5}
        for s, a in zip(shares, aucs, strict=True)
    ]


def report(*seeds: dict[str, list[dict[str, Any]]]) -> RouterReport:
    found = RouterReport("a world", labels=("cvr", "dcvr"))
    for seed in seeds:
        found.add(seed)
    found.conclude()
    return found


GOOD = {"learned": curve(0.70, 0.79, 0.80), "random": curve(0.70, 0.75, 0.80), "length": curve(0.70, 0.77, 0.80)}
BAD = {"learned": curve(0.60, 0.64, 0.70), "random": curve(0.60, 0.65, 0.70), "length": curve(0.60, 0.65, 0.70)}


def test_claims_of_curves_that_dominate() -> None:
    claims = {claim.claim.split(":")[0] + claim.claim.split(":")[1][-12:]: claim for claim in report(GOOD).claims}
    assert all(claim.holds for claim in claims.values())
    assert [round(claim.value, 6) for claim in claims.values()] == [0.04, 0.04, 0.02]


def test_claims_of_one_seed_that_does_not() -> None:
    """Means over both seeds: learned 0.715 beside random 0.70 and length 0.71; the worse seed is 0.01 below both."""
    found = report(GOOD, BAD)
    assert [(round(claim.value, 6), claim.holds) for claim in found.claims] == [
        (0.015, True),
        (-0.01, False),
        (0.005, True),
    ]


def test_what_half_of_the_requests_keep() -> None:
    assert report(GOOD, BAD).kept("learned") == pytest.approx([0.9, 0.4])
    flat = {name: curve(0.7, 0.7, 0.7) for name in ("learned", "random")}
    assert report(flat).kept("learned").tolist() == [0.0]  # a high tier that adds nothing


def test_rows_hold_mean_and_spread_of_every_label() -> None:
    rows = {(row.name, row.contender, row.metric): row for row in report(GOOD, BAD).rows}
    name = "50% high, 6 MFLOP"
    assert rows[name, "learned", "AUC cvr, mean of seeds"].value == pytest.approx(0.715)
    assert rows[name, "learned", "AUC cvr, least of seeds"].value == pytest.approx(0.64)
    assert rows[name, "learned", "AUC dcvr, most of seeds"].value == pytest.approx(0.69)
    assert {row.n for row in rows.values()} == {2}


def test_the_table_names_every_contender_and_budget(capsys: pytest.CaptureFixture[str]) -> None:
    report(GOOD, BAD).print(Console(width=160))
    printed = capsys.readouterr().out
    assert "0.7150 (0.6400..0.7900)" in printed
    assert "learned: 65% of the high tier's gain for half of its requests" in printed


def test_the_plot_has_a_line_a_contender_in_its_place() -> None:
    """Differences to the standard tier: 0 to 0.1; the learned one of GOOD is at 0.09 of it at half the budget."""
    svg = draw_plot(report(GOOD))
    lines = [
        [tuple(map(float, point.split(","))) for point in points.split()]
        for points in re.findall(r'<polyline class="line"[^>]* points="([^"]*)"', svg)
    ]
    assert len(lines) == 3
    (x0, y0), (x1, y1), (x2, y2) = lines[0]
    assert (x0 + x2) / 2 == pytest.approx(x1, abs=0.1)
    assert (y0 - y1) / (y0 - y2) == pytest.approx(0.9, abs=0.01)
    assert svg.count("<polygon") == 3


def test_a_seed_changes_all_that_is_random_and_makes_the_router_learned() -> None:
    recipe = load_recipe(ROOT / "build" / "recipes" / "synthetic.yaml")
    first, second = (of_seed(recipe, seed, quick=False) for seed in (0, 1))
    assert first.router.learned
    assert (first.data.seed, second.data.seed) == (0, 1)  # type: ignore[union-attr]
    assert (first.training.seed, second.training.seed) == (0, 1)
    assert first.name != second.name
    for field in ("tables", "features", "sequences", "tiers", "labels", "serving"):
        assert getattr(first, field) == getattr(recipe, field)
    quick = of_seed(recipe, 0, quick=True)
    assert quick.data.events < recipe.data.events / 10  # type: ignore[union-attr]


def test_a_recipe_of_real_data_keeps_it() -> None:
    recipe = load_recipe(ROOT / "build" / "recipes" / "adaptive.yaml")
    assert of_seed(recipe, 2, quick=False).data == recipe.data
