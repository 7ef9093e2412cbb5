"""The encoder against a plain reference that uses dictionaries and loops."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.recipes import tiny_recipe
from triton_ads.features.encoder import FeatureEncoder, SequenceEncoder
from triton_ads.features.ids import hashed_rows
from triton_ads.features.vocabulary import Tables, Vocabulary, VocabularyError
from triton_ads.recipe import Recipe

KNOWN = {"user": [7, 8], "item": [10, 20, 30], "place": [1, 2]}
RAW = st.one_of(st.sampled_from([-1, 1, 2, 7, 8, 10, 20, 30]), st.integers(-(2**63), 2**63 - 1))


def tiny_tables(recipe: Recipe | None = None) -> Tables:
    return Tables(recipe or tiny_recipe(), {name: Vocabulary.of(ids) for name, ids in KNOWN.items()})


def reference_row(table: str, raw: int) -> int:
    if raw == -1:
        return 0
    if table == "zip":
        return int(hashed_rows(np.array([raw]), 16)[0])
    return 2 + KNOWN[table].index(raw) if raw in KNOWN[table] else 1


@given(st.lists(st.lists(RAW, min_size=3, max_size=3), max_size=8))
def test_user_and_context_equal_a_loop(raw: list[list[int]]) -> None:
    encoder = FeatureEncoder(tiny_recipe(), tiny_tables(), "user", "context")
    found = encoder.encode(np.array(raw, dtype=np.int64).reshape(-1, 3))
    expected = [
        [reference_row("user", u), reference_row("zip", z), reference_row("place", p if p in (1, 2) else 1)]
        for u, z, p in raw
    ]
    assert found.rows.tolist() == expected
    assert found.oov == sum(row.count(1) for row in expected)
    assert found.scenario_defaulted == sum(p not in (1, 2) for _, _, p in raw)


@given(st.lists(st.lists(RAW, min_size=3, max_size=3), max_size=8))
def test_item_equals_a_loop(raw: list[list[int]]) -> None:
    encoder = FeatureEncoder(tiny_recipe(), tiny_tables(), "item")
    found = encoder.encode(np.array(raw, dtype=np.int64).reshape(-1, 3))
    expected = [[reference_row("item", value) for value in row] for row in raw]
    assert found.rows.tolist() == expected
    assert found.oov == sum(row.count(1) for row in expected)
    assert found.scenario_defaulted == 0


def test_worked_example() -> None:
    encoder = FeatureEncoder(tiny_recipe(), tiny_tables(), "user", "context")
    found = encoder.encode(np.array([[8, 42, 2], [9, -1, 99], [-1, 42, -1]]))
    # 42 hashes to 13066772586158965587, which is 3 mod 16. Places 99 and -1 are answered as place 1, row 2.
    assert found.rows.tolist() == [[3, 5, 3], [1, 0, 2], [0, 5, 2]]
    assert found.rows.dtype == np.int64
    assert (found.oov, found.scenario_defaulted) == (1, 2)


def test_the_argument_is_not_changed() -> None:
    raw = np.array([[8, 42, 99]])
    FeatureEncoder(tiny_recipe(), tiny_tables(), "user", "context").encode(raw)
    assert raw.tolist() == [[8, 42, 99]]


def test_with_heads_by_scenario_only_those_scenarios_are_known() -> None:
    recipe = tiny_recipe(scenario={"feature": "place", "default": 2}, heads={"by": "scenarios", "scenarios": [2]})
    found = FeatureEncoder(recipe, tiny_tables(recipe), "context").encode(np.array([[1], [2], [5]]))
    assert found.rows.tolist() == [[3], [3], [3]]
    assert found.scenario_defaulted == 2


def test_a_scenario_without_a_row_is_refused() -> None:
    recipe = tiny_recipe(scenario={"feature": "place", "default": 3})
    with pytest.raises(VocabularyError, match="scenario 3 is not in the vocabulary of table place"):
        FeatureEncoder(recipe, tiny_tables(recipe), "context")


@pytest.mark.parametrize("raw", [np.zeros((2, 2), np.int64), np.zeros(3, np.int64), np.zeros((1, 3), np.int32)])
def test_another_shape_or_dtype_is_refused(raw: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"user\+context ids: .* int64 of shape \[n, 3\] needed"):
        FeatureEncoder(tiny_recipe(), tiny_tables(), "user", "context").encode(raw)


SEQUENCES = st.tuples(st.lists(st.tuples(RAW, RAW), max_size=6), st.lists(st.tuples(RAW), max_size=6))


@given(SEQUENCES)
def test_sequences_equal_a_loop(sequences: tuple[list[tuple[int, ...]], ...]) -> None:
    expected: list[int] = []
    for events, length, tables in zip(sequences, (3, 2), (("item", "zip"), ("item",)), strict=True):
        rows = [reference_row(t, v) for event in events[:length] for t, v in zip(tables, event, strict=True)]
        expected += rows + [0] * (length * len(tables) - len(rows))
    raw = np.array([value for events in sequences for event in events for value in event], dtype=np.int64)
    encoder = SequenceEncoder(tiny_recipe(), tiny_tables())
    found = encoder.encode(np.array([len(s) for s in sequences], dtype=np.int32), raw)
    assert found.rows.tolist() == expected
    assert found.oov == expected.count(1)
    assert found.truncated == max(0, len(sequences[0]) - 3) + max(0, len(sequences[1]) - 2)
    padded, _ = encoder.pad([len(s) for s in sequences], raw)
    assert encoder.encode_padded(np.stack([padded, padded])).tolist() == [expected, expected]


def test_sequences_worked() -> None:
    encoder = SequenceEncoder(tiny_recipe(), tiny_tables())
    # Of `seen` one event of two fields; of `bought` three, of which the two most recent are kept.
    found = encoder.encode([1, 3], np.array([20, 42, 30, 99, 10]))
    assert found.rows.tolist() == [3, 5, 0, 0, 0, 0, 4, 1]
    assert (found.oov, found.truncated) == (1, 1)
    assert encoder.encode([0, 0], np.empty(0, np.int64)).rows.tolist() == [0] * 8


@pytest.mark.parametrize(
    ("lengths", "size", "message"),
    [
        ([1], 2, "1 found, 2 needed"),
        ([1, -1], 1, r"\[1, -1\] found, a length must be 0 or more"),
        ([1, 1], 2, r"shape \[2\] found, int64 of shape \[3\] needed for sequence_lengths \[1, 1\]"),
        ([2**31 - 1, 2**31 - 1], 4, r"shape \[6442450941\] needed"),
    ],
)
def test_sequences_that_do_not_add_up_are_refused(lengths: list[int], size: int, message: str) -> None:
    encoder = SequenceEncoder(tiny_recipe(), tiny_tables())
    with pytest.raises(ValueError, match=message):
        encoder.encode(np.array(lengths, dtype=np.int32), np.zeros(size, dtype=np.int64))
