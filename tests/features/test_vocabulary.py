"""Vocabularies and tables against plain dictionaries."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.recipes import tiny_recipe
from triton_ads.features.ids import hashed_rows
from triton_ads.features.vocabulary import Tables, Vocabulary, VocabularyError

INT64 = st.integers(-(2**63), 2**63 - 1)
# A narrow range as well, so that ids really meet.
IDS = st.one_of(st.integers(-5, 20), INT64)


def reference_rows(known: set[int], raw: list[int]) -> list[int]:
    row = {value: 2 + i for i, value in enumerate(sorted(known))}
    return [0 if value == -1 else row.get(value, 1) for value in raw]


@given(st.sets(IDS.filter(lambda v: v != -1), max_size=30), st.lists(IDS, max_size=60))
def test_rows_equal_a_dictionary(known: set[int], raw: list[int]) -> None:
    vocabulary = Vocabulary.of(np.array(sorted(known), dtype=np.int64))
    assert vocabulary.rows(np.array(raw, dtype=np.int64)).tolist() == reference_rows(known, raw)


def test_rows_worked() -> None:
    vocabulary = Vocabulary.of([[30, 10], [20, 10]])
    assert vocabulary.ids.tolist() == [10, 20, 30]
    raw = np.array([[10, 20, 30], [-1, 0, 2**62]])
    assert vocabulary.rows(raw).tolist() == [[2, 3, 4], [0, 1, 1]]


def test_an_empty_vocabulary_knows_nothing() -> None:
    vocabulary = Vocabulary.of(np.empty(0, dtype=np.int64))
    assert vocabulary.rows(np.array([-1, 0, 7])).tolist() == [0, 1, 1]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([-1, 4], "cannot be a real id"),
        ([-5, -1], "cannot be a real id"),
        ([4, 3], "3 follows 4"),
        ([1, 4, 4], "4 follows 4"),
        ([[1, 2]], r"shape \[1, 2\]"),
    ],
)
def test_refuses(ids: list[int], message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        Vocabulary(np.array(ids, dtype=np.int64))


def test_refuses_another_dtype() -> None:
    with pytest.raises(VocabularyError, match="int32"):
        Vocabulary(np.array([1, 2], dtype=np.int32))


def test_file_is_memory_mapped_and_says_the_same(tmp_path: Path) -> None:
    vocabulary = Vocabulary.of([5, -3, 2**62])
    vocabulary.save(tmp_path / "item.npy")
    loaded = Vocabulary.load(tmp_path / "item.npy")
    assert isinstance(loaded.ids.base, np.memmap)
    assert loaded.ids.tolist() == [-3, 5, 2**62]


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "item.npy"
    with pytest.raises(VocabularyError, match=r"item\.npy"):
        Vocabulary.load(path)
    path.write_bytes(b"not an array")
    with pytest.raises(VocabularyError, match=r"item\.npy"):
        Vocabulary.load(path)
    np.save(path, np.array([2, 1]))
    with pytest.raises(VocabularyError, match=r"item\.npy: 1 follows 2"):
        Vocabulary.load(path)


def tables(**changed: list[int]) -> Tables:
    ids = {"user": [7, 8], "item": [10, 20, 30], "place": [1, 2], **changed}
    return Tables(tiny_recipe(), {name: Vocabulary.of(value) for name, value in ids.items()})


def test_tables_rows_and_counts() -> None:
    found = tables()
    assert found.table_rows == {"user": 4, "item": 5, "place": 4, "zip": 18}
    raw = np.array([10, 11, -1])
    assert found.rows("item", raw).tolist() == [2, 1, 0]
    assert found.rows("zip", raw).tolist() == hashed_rows(raw, 16).tolist()


def test_tables_survive_a_folder(tmp_path: Path) -> None:
    tables().save(tmp_path / "vocabularies")
    loaded = Tables.load(tiny_recipe(), tmp_path / "vocabularies")
    assert loaded.digest == tables().digest
    assert loaded.table_rows == tables().table_rows


def test_digest_changes_with_any_id() -> None:
    digests = {tables().digest, tables(item=[10, 20]).digest, tables(item=[10, 20, 31]).digest}
    # The same ids, but in other tables.
    digests.add(tables(user=[1, 2], place=[7, 8]).digest)
    assert len(digests) == 4


def test_tables_need_exactly_the_vocabularies_of_the_recipe() -> None:
    with pytest.raises(VocabularyError, match=r"\['item', 'place', 'user'\] needed"):
        Tables(tiny_recipe(), {"item": Vocabulary.of([1])})
