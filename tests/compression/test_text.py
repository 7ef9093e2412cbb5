"""Text in two halves that share nothing, and its pieces."""

from pathlib import Path

import numpy as np
import pytest

from triton_ads.compression.text import (
    HELD_OUT_TOPICS,
    TextError,
    families,
    python_documentation,
    read_texts,
    token_sequences,
    with_held_out,
)

LONG = "This paragraph is long enough to make two documents that share it members of one family."
OTHER = "Another paragraph of more than eighty characters, which a third document has in common too."


def test_documents_that_share_a_paragraph_are_a_family() -> None:
    documents = {"a": f"{LONG}\n\nx", "b": f"y\n\n{LONG}\n  \n{OTHER}", "c": OTHER, "d": "x\n\ny", "e": LONG[:40]}
    assert families(documents) == [["a", "b", "c"], ["d"], ["e"]]


def test_line_breaks_do_not_hide_what_is_shared() -> None:
    assert families({"a": LONG, "b": LONG.replace("make two", "make\n   two")}) == [["a", "b"]]


def test_the_halves_of_python_s_documentation_share_no_long_paragraph() -> None:
    texts = python_documentation()
    halves = [
        {" ".join(part.split()) for part in half.split("\n\n") if len(" ".join(part.split())) >= 80}
        for half in (texts.calibration, texts.held_out)
    ]
    assert len(halves[0]) > 300 and len(halves[1]) > 50
    assert not halves[0] & halves[1]
    assert "pdb" in texts.held_out and "pdb.set_trace" not in texts.calibration
    assert len(texts.held_out) > 30_000 < len(texts.calibration)
    assert set(HELD_OUT_TOPICS) <= set(__import__("pydoc_data.topics", fromlist=["topics"]).topics)


def test_each_paragraph_comes_once() -> None:
    long = [part for part in python_documentation().calibration.split("\n\n") if len(part) > 200]
    assert len(long) == len(set(long))


def test_own_text_holds_out_its_end_but_nothing_met_before() -> None:
    text = "\n\n".join([f"paragraph {number}" for number in range(19)] + ["paragraph 3"])
    texts = with_held_out(text)
    assert texts.held_out == "paragraph 18"
    assert texts.calibration.endswith("paragraph 17")


def test_pieces_are_spread_over_the_text_and_do_not_overlap() -> None:
    ids = np.arange(103)
    np.testing.assert_array_equal(token_sequences(ids, 3, 10)[:, 0], [0, 30, 60])
    np.testing.assert_array_equal(token_sequences(ids, 10, 10).ravel(), np.arange(100))


def test_a_text_that_is_too_short_is_refused() -> None:
    with pytest.raises(TextError, match="the text has 29 tokens; 3 sequences of 10 tokens need 30"):
        token_sequences(np.arange(29), 3, 10)


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("eins", encoding="utf-8")
    (tmp_path / "b.txt").write_text("zwei", encoding="utf-8")
    assert read_texts([tmp_path / "a.txt", tmp_path / "b.txt"]) == "eins\n\nzwei"
    (tmp_path / "c.txt").write_bytes(b"\xff\xfe\x00")
    for name in ("c.txt", "none.txt"):
        with pytest.raises(TextError, match=f"{name}.*text is UTF-8 files"):
            read_texts([tmp_path / name])
