"""`triton-ads trie inspect`, and the tree as a picture."""

import xml.etree.ElementTree as ET
from itertools import product
from pathlib import Path

import pytest

from triton_ads.cli import main
from triton_ads.trie import build_tree, save_tree

#: 40 children of the root, one path of two more tokens below each: below a survivor of level 1 lie two nodes.
TREE = build_tree([(a, 0, 0) for a in range(40)], range(40))


def test_a_tree_of_forced_tails_pays_at_its_first_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_tree(TREE, tmp_path / "tree")
    arguments = ["--beam", "10", "--fixed-ms", "10", "--token-ms", "1", "--svg", str(tmp_path / "tree.svg")]
    assert main(["trie", "inspect", str(tmp_path / "tree"), *arguments]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("40 ads, 121 nodes, ") and lines[0].endswith(" bytes an ad, beam 10")
    rows = [line.split() for line in lines[2:5]]
    assert rows[0] == ["1", "40", "0", "1.0", "10", "10", "20", "30"]  # 10 + 20 tokens, at once
    assert rows[1] == ["2", "40", "0", "1.0", "10", "10", "10", "40"]  # 20 for the step before, and 20
    assert rows[2] == ["3", "40", "40", "0.0", "10", "0", "0", "-"]
    assert lines[5] == "verify at level 1: 1.33x over stepping, 40 ms"
    drawn = ET.parse(tmp_path / "tree.svg").getroot()
    texts = [text.text for text in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "10 / 20, best here" in texts
    rects = list(drawn.iter("{http://www.w3.org/2000/svg}rect"))[1:]  # the first is the paper
    bars = [float(bar.attrib["width"]) for bar in rects]
    assert bars[:4] == [205.0, 410.0, 205.0, 205.0] and bars[4:] == [0, 0]


def test_a_bushy_tree_is_stepped_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tree = build_tree(list(product(range(8), repeat=3)), range(512))
    save_tree(tree, tmp_path)
    main(["trie", "inspect", str(tmp_path), "--beam", "2", "--fixed-ms", "0", "--token-ms", "1"])
    assert "step to the end: 1.00x over stepping, 4 ms" in capsys.readouterr().out


def test_what_is_wrong_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trie", "inspect", str(tmp_path)]) == 1
    assert "no tree" in capsys.readouterr().err
    assert main(["trie", "inspect", "--repository", str(tmp_path)]) == 1
    assert "no recipe that generates ads" in capsys.readouterr().err
