"""Charts: where values end up, which ticks there are, and that nothing is drawn outside the picture."""

import math
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triton_ads.charts import svg
from triton_ads.charts.axis import Linear, Logarithmic
from triton_ads.charts.bars import StackedBars
from triton_ads.charts.lines import Line, LineChart

SVG = "{http://www.w3.org/2000/svg}"
VALUES = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=8)


@given(VALUES)
def test_a_linear_axis_has_room_for_all_values_and_a_few_round_ticks(values):
    axis = Linear.over(values, 100, 400)
    assert all(100 <= axis.at(value) <= 400 for value in [0.0, *values])
    ticks = axis.ticks()
    assert 3 <= len(ticks) <= 8
    assert all(axis.low <= tick <= axis.high * (1 + 1e-9) for tick in ticks)
    step = ticks[1] - ticks[0]
    assert float(f"{step:.0e}") == pytest.approx(step)  # one digit


@given(VALUES)
def test_a_logarithmic_axis_has_room_above_all_values_and_a_tick_at_both_ends_or_decades(values):
    axis = Logarithmic.over(values, 400, 100)
    assert all(100 <= axis.at(value) <= 400 for value in values)
    assert axis.high >= 1.2 * max(values) * 0.999
    assert len(axis.ticks()) >= 2


def test_equal_steps_of_a_logarithmic_axis_are_equal_factors():
    axis = Logarithmic(1, 1000, 0, 300)
    assert [round(axis.at(value), 9) for value in (1, 10, 100, 1000)] == [0, 100, 200, 300]
    assert axis.at(0.5) == 0  # what is below the axis stands on it


def chart(**changes) -> LineChart:
    lines = [Line("a < b", [(0, 5.0), (10, 50.0), (20, None), (30, 500.0)], "#0072b2")]
    return LineChart(
        "title & more", "x", "ms", lines, [(100.0, "deadline")], [(10, "rated")], logarithmic=True, **changes
    )


def test_a_line_has_its_points_and_stops_at_a_gap():
    root = ElementTree.fromstring(chart().document())
    circles = list(root.iter(f"{SVG}circle"))
    assert len(circles) == 3
    (line,) = root.iter(f"{SVG}polyline")  # the point after the gap is alone
    assert line.get("points", "").split() == [f"{c.get('cx')},{c.get('cy')}" for c in circles[:2]]
    # 5 to 50 and 50 to 500: equal factors, equal heights, upwards.
    heights = [float(c.get("cy", "nan")) for c in circles]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.11)
    assert heights[0] > heights[1]
    assert "a < b" in "".join(root.itertext())


POINTS = st.lists(st.tuples(st.floats(0, 1e4), st.floats(0.01, 1e5)), max_size=6)


@given(POINTS, st.lists(st.text("abc <&", max_size=30), min_size=1, max_size=5), st.booleans())
def test_nothing_is_drawn_outside_the_picture(points, names, logarithmic):
    lines = [Line(name, points, "#000") for name in names]
    root = ElementTree.fromstring(LineChart("t", "x", "y", lines, logarithmic=logarithmic).document())
    for element in root.iter():
        for name, limit in (("cx", 560), ("x", 560), ("x1", 560), ("x2", 560), ("cy", 340), ("y1", 340), ("y2", 340)):
            if name in element.attrib and "%" not in element.attrib[name]:
                value = float(element.attrib[name])
                assert math.isfinite(value)
                assert 0 <= value <= limit


def test_names_of_a_legend_do_not_overlap_and_go_to_another_line():
    names = ["item_scorer", "tritonserver", "user_encoder", "router", "guardian", "all"]
    body, below = svg.legend(names, ["#000"] * 6, 50, 40, 300)
    texts = list(ElementTree.fromstring(f"<g>{body}</g>").iter("text"))
    places = [(float(t.get("y", 0)), float(t.get("x", 0)), svg.width_of(t.text or "")) for t in texts]
    for (y, x, width), (next_y, next_x, next_width) in pairwise(places):
        assert next_y > y or next_x >= x + width + 14
        assert next_x + next_width <= 300
    assert below > max(y for y, _, _ in places)


def test_parts_of_a_bar_follow_each_other_and_their_sum_is_told():
    drawn = StackedBars("t", ("queue", "compute"), [("router", (1.0, 3.0)), ("scorer", (2.0, 6.0))], "ms").document()
    root = ElementTree.fromstring(drawn)
    bars = [b for b in root.iter(f"{SVG}rect") if b.find(f"{SVG}title") is not None]
    boxes = [(float(b.get("x", 0)), float(b.get("width", 0))) for b in bars]
    assert boxes[0][0] + boxes[0][1] == pytest.approx(boxes[1][0], abs=0.2)
    assert boxes[1][1] == pytest.approx(3 * boxes[0][1], abs=0.3)
    assert boxes[3][1] == pytest.approx(2 * boxes[1][1], abs=0.3)
    assert {"4 ms", "8 ms"} <= {t.text for t in root.iter(f"{SVG}text")}
