from pathlib import Path

import numpy as np
import pytest

from tests.support.tiny_release import ITEMS, USERS, tiny_recipe, write_tiny_release
from triton_ads.features.ids import OOV
from triton_ads.serving.store import ItemStore, StoreError, UserStore


@pytest.fixture
def folder(tmp_path):
    return write_tiny_release(tmp_path / "release") / "store"


def test_users_are_found(folder):
    store = UserStore(folder / "users", tiny_recipe())
    assert [store.find(user) for user in USERS] == list(range(len(USERS)))
    for unknown in (USERS[0] - 1, USERS[-1] + 1, -1, 0, 2**63 - 1, -(2**63)):
        assert store.find(unknown) is None


def test_items_are_found_in_one_go(folder):
    store = ItemStore(folder / "items", tiny_recipe())
    asked = np.array([ITEMS[3], 5, ITEMS[-1], 2**63 - 1, -(2**63), ITEMS[3]])
    position_M, known_M = store.find(asked)
    assert known_M.tolist() == [True, False, True, False, False, True]
    rows_MF, dense_MD = store.rows(position_M, known_M), store.dense(position_M, known_M)
    saved_rows, saved_dense = np.load(folder / "items/rows.npy"), np.load(folder / "items/dense.npy")
    oov = [OOV] * 4
    last = len(ITEMS) - 1
    assert rows_MF.tolist() == [
        saved_rows[3].tolist(), oov, saved_rows[last].tolist(), oov, oov, saved_rows[3].tolist()
    ]  # fmt: skip
    assert dense_MD[:, 0].tolist() == [saved_dense[3, 0], 0, saved_dense[last, 0], 0, 0, saved_dense[3, 0]]
    np.testing.assert_array_equal(np.load(folder / "items/rows.npy"), saved_rows)
    payout = np.load(folder / "items/values.npy")[:, 0]
    nan = np.nan  # of an item that nobody knows, nobody knows a value
    np.testing.assert_array_equal(
        store.values(position_M, known_M)[:, 0], [payout[3], nan, payout[last], nan, nan, payout[3]]
    )


def test_no_items_at_all(folder):
    arrays = {"ids": ((0,), np.int64), "rows": ((0, 4), np.int32), "dense": ((0, 1), np.float32)}
    for name, (shape, dtype) in {**arrays, "values": ((0, 1), np.float32)}.items():
        np.save(folder / "items" / f"{name}.npy", np.zeros(shape, dtype))
    store = ItemStore(folder / "items", tiny_recipe())
    found = store.find(np.array([1, 2]))
    assert found[1].tolist() == [False, False]
    assert store.rows(*found).tolist() == [[OOV] * 4] * 2
    assert store.dense(*found).tolist() == [[0.0]] * 2
    assert np.isnan(store.values(*found)).tolist() == [[True]] * 2


def test_arrays_are_mapped_not_read(folder):
    store = UserStore(folder / "users", tiny_recipe())
    maps = Path("/proc/self/maps").read_text()
    assert str(folder / "users" / "sequences.npy") in maps
    assert not store.sequences_nL.flags.writeable


@pytest.mark.parametrize(
    ("file", "array", "message"),
    [
        (
            "users/rows.npy",
            np.zeros((20, 2), np.int32),
            r"int32 of shape \[20, 2\] found, int32 of shape \[20, 3\] needed",
        ),
        ("users/rows.npy", np.zeros((19, 3), np.int32), r"shape \[19, 3\] found"),
        ("users/rows.npy", np.zeros((20, 3), np.int64), "int64 of shape .* found, int32"),
        ("users/history.npy", np.zeros((20, 1), np.int32), r"shape \[20, 1\] found"),
        ("users/sequences.npy", np.zeros((20, 10), np.int32), r"shape \[20, 10\] found, int32 of shape \[20, 11\]"),
        ("users/dense.npy", np.zeros((20, 2), np.float64), "float64 of shape"),
        ("users/ids.npy", np.zeros(20, np.int64), "ids must be strictly increasing"),
        ("items/ids.npy", np.arange(60)[::-1].copy(), "ids must be strictly increasing"),
        ("items/dense.npy", np.zeros((60, 2), np.float32), r"float32 of shape \[60, 1\] needed"),
        (
            "items/values.npy",
            np.zeros((60, 0), np.float32),
            r"shape \[60, 0\] found, float32 of shape \[60, 1\] needed",
        ),
    ],
)
def test_a_store_that_does_not_fit(folder, file, array, message):
    np.save(folder / file, array)
    side, cls = (file.split("/")[0], UserStore if file.startswith("users") else ItemStore)
    with pytest.raises(StoreError, match=message) as error:
        cls(folder / side, tiny_recipe())
    assert str(folder / file) in str(error.value)


def test_a_missing_file(folder):
    (folder / "items" / "rows.npy").unlink()
    with pytest.raises(StoreError, match=r"items/rows.npy: .*No such file"):
        ItemStore(folder / "items", tiny_recipe())
