"""`triton-ads trie inspect`, and the tree as a picture."""

import xml.etree.ElementTree as ET
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from tests.support.checkpoints import hugging_face_model, save_folder
from tests.support.titles import TOKENS, text_tokenizer
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


def write_ads(folder: Path, **target: Any) -> Path:
    """A recipe of twelve ads in three groups of four, each met by two users of its group."""
    titles = [f"{group} {word}" for group in ("space", "garden", "horse") for word in ("one", "two", "three", "four")]
    users = [ad // 4 * 2 + one for ad in range(12) for one in range(2)]
    events = {"user_id": users, "item_id": [ad for ad in range(12) for _ in range(2)], "time": range(24)}
    pq.write_table(pa.table({**events, "cvr": [k % 3 > 0 for k in range(24)]}), folder / "events.parquet")
    pq.write_table(pa.table({"item_id": range(12), "title": titles}), folder / "items.parquet")
    ids = ("user_id", "item_id")
    document = {
        "name": "ads",
        "data": {"source": "parquet", "events": "events.parquet", "items": "items.parquet", "title": "title"},
        "tables": {name: {"kind": "hashed", "width": 4, "rows": 16} for name in ids},
        "features": [
            {"name": name, "side": side, "table": name} for side, name in zip(("user", "item"), ids, strict=True)
        ],
        "sequences": [{"name": "met", "length": 4, "fields": [{"name": "item_id", "table": "item_id"}]}],
        "labels": ["cvr"],
        "tiers": {"standard": {"model": "wukong"}},
        "router": {"default_tier": "standard"},
        "target": {"journey": "met", "events": 2, "beam": 5, **target},
    }
    (folder / "ads.yaml").write_text(yaml.safe_dump(document))
    return folder / "ads.yaml"


def test_a_catalogue_of_parquet_files_before_anything_is_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = write_ads(tmp_path, identifiers={"of": "text", "width": 4, "length": 3, "branching": [3, 4, 1]})
    before = sorted(tmp_path.rglob("*"))
    assert main(["trie", "inspect", "--recipe", str(recipe), "--var", str(tmp_path / "var")]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("12 ads, 28 nodes, ") and lines[0].endswith("beam 5")
    rows = [line.split() for line in lines[2:5]]
    assert [row[:3] for row in rows] == [["1", "3", "0"], ["2", "12", "0"], ["3", "12", "12"]]
    assert lines[7] == "The same ads with identifiers of other lengths, 2 events in a prompt:"
    # Every event is as many tokens as an identifier has: 3.2 + 0.91 x 2, then 3.2 + 0.91 x 4; length 1 has no step.
    assert lines[9].split() == ["1", "12", "2", "5", "0", "0"]
    assert lines[10].split() == ["2", "6", "2", "4", "7", "8", "8"]
    assert sorted(tmp_path.rglob("*")) == before


def test_titles_before_anything_is_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_folder(tmp_path / "model", hugging_face_model(vocab_size=len(TOKENS)), tokens=text_tokenizer())
    recipe = write_ads(tmp_path, identifiers={"of": "titles"}, model={"checkpoint": "model"})
    assert main(["trie", "inspect", "--recipe", str(recipe), "--beam", "3"]) == 0
    lines = capsys.readouterr().out.splitlines()
    # s, g and h; letters of a group's name in a row; then "one", "two", "three" and "four" with a shared "t".
    assert lines[2].split()[:3] == ["1", "3", "0"] and lines[0].startswith("12 ads")
    assert lines[-1].startswith("verify at level 8: ")
    recipe = write_ads(tmp_path, identifiers={"of": "titles", "longest": 12}, model={"checkpoint": "model"})
    assert main(["trie", "inspect", "--recipe", str(recipe)]) == 1
    assert "title 'garden three': 13 tokens found with its end, 12 allowed" in capsys.readouterr().err
    recipe = write_ads(tmp_path, identifiers={"of": "titles"}, model={"checkpoint": "none"})
    assert main(["trie", "inspect", "--recipe", str(recipe)]) == 1
    assert f"target.model.checkpoint: there is no {tmp_path / 'none'}" in capsys.readouterr().err


def test_what_a_recipe_without_ads_to_generate_has_no_tree_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trie", "inspect", "--recipe", "build/recipes/movielens.yaml"]) == 1
    assert "the recipe movielens has no `target`" in capsys.readouterr().err
