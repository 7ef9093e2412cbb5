"""What is too far off is not released, and the error says what, by how much and how to go on."""

import pytest

from tests.support.recipes import tiny_recipe
from triton_ads.export.calibration_bound import CalibrationError, check_calibration, highest_ratio
from triton_ads.manifest import CostModel, PredictedOverActual, TierManifest


def tier(*sums: tuple[str, str | None, int, int, float]) -> TierManifest:
    names = ("label", "scenario", "examples", "positives", "predicted")
    return TierManifest(
        model="wukong",
        engine="onnxruntime",
        precision="float32",
        state=(),
        state_size=0,
        parameters=0,
        flops_user=0,
        flops_item=0,
        cost=CostModel(fixed_ms=0, tile_ms=0, user_ms=0),
        parity={},
        quality={},
        calibration=tuple(PredictedOverActual(**dict(zip(names, values, strict=True))) for values in sums),
    )


def check(*sums: tuple[str, str | None, int, int, float], **calibration: object) -> None:
    check_calibration(tiny_recipe(calibration={"min_examples": 100, **calibration}), {"standard": tier(*sums)})


@pytest.mark.parametrize(
    "sums",
    [
        ("cvr", None, 1000, 200, 240.0),  # 1.2, the bound itself
        ("cvr", None, 1000, 240, 200.0),  # 1 / 1.2
        ("cvr", "morning", 1000, 200, 300.0),  # within a scenario half as much again is allowed
        ("cvr", None, 1000, 99, 900.0),  # too few positives to say
        ("cvr", None, 1000, 901, 10.0),  # too few negatives
        ("cvr", None, 1000, 0, 900.0),  # no positive at all
    ],
)
def test_what_passes(sums: tuple[str, str | None, int, int, float]) -> None:
    check(sums)


def test_the_bound_of_a_sum_is_none_where_it_says_too_little() -> None:
    recipe = tiny_recipe(calibration={"min_examples": 100, "tolerance": 0.25, "scenario_tolerance": 0.75})
    sums = [("cvr", None, 1000, 100), ("cvr", "morning", 1000, 900), ("cvr", None, 1000, 99), ("cvr", "x", 1000, 901)]
    found = tier(*((*s, 1.0) for s in sums)).calibration
    assert [highest_ratio(recipe, one) for one in found] == [1.25, 1.75, None, None]


def test_everything_out_of_bound_is_named_with_what_to_do() -> None:
    with pytest.raises(CalibrationError) as caught:
        check(
            ("cvr", None, 1000, 200, 241.0),
            ("cvr", "morning", 500, 150, 99.0),
            ("cvr", "evening", 500, 150, 142.0),
            ("dcvr", None, 1000, 100, 100.0),
        )
    assert str(caught.value).splitlines() == [
        "tier standard, label cvr: predicted over actual is 1.205 on the test part (241 predicted, 200 of 1000 "
        "examples positive), 0.833 to 1.200 allowed (calibration.tolerance)",
        "tier standard, label cvr, scenario morning: predicted over actual is 0.660 on the test part (99 predicted, "
        "150 of 500 examples positive), 0.667 to 1.500 allowed (calibration.scenario_tolerance)",
        "Nothing was released. What the recipe can change:",
        "  calibration.method: platt or isotonic, where the validation part shows the same fault",
        "  data: more recent examples, where base rates have moved since the validation part",
        "  calibration.tolerance or scenario_tolerance: a wider bound, where this much is acceptable",
    ]


def test_the_recipe_sets_the_bounds() -> None:
    check(("cvr", None, 1000, 200, 390.0), tolerance=1.0)
    with pytest.raises(CalibrationError, match=r"0\.990 to 1\.010 allowed \(calibration\.tolerance\)"):
        check(("cvr", None, 1000, 200, 203.0), tolerance=0.01)
    with pytest.raises(CalibrationError, match=r"scenario 7: predicted over actual is 1\.050"):
        check(("cvr", "7", 1000, 200, 210.0), scenario_tolerance=0.04)


def test_the_lowest_number_of_examples_is_the_recipe_s() -> None:
    check(("cvr", None, 300, 150, 300.0), min_examples=151)
    with pytest.raises(CalibrationError):
        check(("cvr", None, 300, 150, 300.0), min_examples=150)
