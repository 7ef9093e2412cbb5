"""The drawing of a split: what is where, how large, and that the SVG is a picture that can be read."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

from triton_ads.cli import main
from triton_ads.inspection.drawing import picture_of, show_drawing, svg, text
from triton_ads.inspection.split import SplitDocument, copied_table, operators_table, short_name, state_table

SVG = "{http://www.w3.org/2000/svg}"

REPORT = SplitDocument.model_validate(
    {
        "flops_row": 1000,
        "flops_user": 400,
        "flops_item": 600,
        "shared": 0.4,
        "state_bytes": 72,
        "state": [
            {"name": "keys", "shape": [2, 8], "dtype": "float32", "offset": 0, "size": 16, "source": "/m/din.py:4"},
            {"name": "row", "shape": [], "dtype": "int64", "offset": 16, "size": 2, "source": ""},
        ],
        "operators": [
            {
                "operator": "aten.linear.default",
                "source": "/m/din.py:4",
                "shape": [2, 8],
                "side": "user item",
                "flops_row": 800,
                "flops_user": 400,
                "flops_item": 400,
            },
            {
                "operator": "aten.matmul.default",
                "source": "/m/<din>.py:9",
                "shape": [3],
                "side": "item",
                "flops_row": 200,
                "flops_user": 0,
                "flops_item": 200,
            },
        ],
        "unshared": [
            {"operator": "aten.cumsum.default", "source": "/m/din.py:7", "elements": 12, "reason": "no rule for it"}
        ],
    }
)


def cells(table: Table) -> list[list[str]]:
    return [list(map(str, row)) for row in zip(*(column.cells for column in table.columns), strict=True)]


def test_tables() -> None:
    assert cells(operators_table(REPORT)) == [
        ["linear", "user + item", "2 x 8", "800", "80.0%", "400", "400", "/m/din.py:4"],
        ["matmul", "item", "3", "200", "20.0%", "0", "200", "/m/<din>.py:9"],
    ]
    assert cells(state_table(REPORT)) == [
        ["keys", "2 x 8", "float32", "64", "/m/din.py:4"],
        ["row", "1", "int64", "8", ""],
    ]
    assert cells(copied_table(REPORT)) == [["aten.cumsum.default", "12", "no rule for it", "/m/din.py:7"]]


def test_names() -> None:
    assert short_name("aten.einsum.default") == "einsum"
    assert short_name("<built-in function mul>") == "<built-in function mul>"


def test_text_shows_both_parts_with_the_state_between() -> None:
    lines = text(REPORT).splitlines()
    assert "once a user: 400 FLOPs" in lines[0]
    assert "for each ad: 600 FLOPs" in lines[0]
    assert "state of a user: 72 B" in lines[1]
    left, right = lines[1].split("▶")
    assert left.startswith("│ linear din.py:4")
    assert right.strip().startswith("│ linear din.py:4")
    assert left.count("█") == right.count("█") == 12  # one scale for both parts
    assert lines[2].count("█") == 6  # half as many operations
    assert "matmul <din>.py:9" in lines[2]
    assert len({line.index("┌", 5) for line in lines[:1]} | {lines[1].index("│", 60)}) <= 2
    assert any("keys 2 x 8  64 B" in line for line in lines)
    assert any("row 1  8 B" in line for line in lines)


def test_svg_is_a_picture_of_the_same() -> None:
    root = ElementTree.fromstring(svg(REPORT, "mine & high"))
    words = [element.text for element in root.iter(f"{SVG}text")]
    assert words[0] == "mine & high: N ads cost 400 + N x 600 FLOPs, instead of N x 1 k"
    assert "matmul <din>.py:9  200" in words
    boxes = [box for box in root.iter(f"{SVG}rect") if box.get("width") == "300"]
    assert len(boxes) == 1 + 2 + 2  # of the user part, of the state, of the item part
    by_column: dict[str | None, list[int]] = {}
    for box in boxes:
        by_column.setdefault(box.get("x"), []).append(int(str(box.get("height"))))
    user, state, item = by_column.values()
    assert user[0] == item[0] > item[1]  # one scale for both parts
    assert state[0] > state[1]
    assert len(list(root.iter(f"{SVG}line"))) == 2
    bottom = max(int(str(box.get("y"))) + int(str(box.get("height"))) for box in boxes)
    assert bottom < int(str(root.get("height")))


def test_a_report_of_an_older_release_is_not_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older = REPORT.model_copy(update={"operators": ()})
    show_drawing("x", older, Console(), tmp_path / "x.svg")
    assert capsys.readouterr().out == ""
    assert not (tmp_path / "x.svg").exists()


def test_files_of_one_tier_and_of_several() -> None:
    assert picture_of(Path("a.svg"), "high", alone=True) == Path("a.svg")
    assert picture_of(Path("a.svg"), "high", alone=False) == Path("a-high.svg")
    assert picture_of(None, "high", alone=False) is None


def test_the_split_of_a_recipe_without_a_release(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = Path(__file__).parents[1] / "recipes" / "tiny.yaml"
    assert main(["inspect", "split", "--recipe", str(recipe), "--svg", str(tmp_path / "parts.svg")]) == 0
    shown = capsys.readouterr().out
    for tier in ("standard", "high"):
        assert (tmp_path / f"parts-{tier}.svg").read_text().startswith("<svg")
    assert "triton_ads/models/" in shown  # lines of the models
    assert "for each ad:" in shown
    assert main(["inspect", "split", "--recipe", str(recipe), "--tier", "best"]) == 1
    assert "tier 'best' is not known; tiers: standard, high" in capsys.readouterr().err
