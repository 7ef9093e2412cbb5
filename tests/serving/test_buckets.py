import numpy as np
import pytest

from triton_ads.serving.buckets import Bucket, smallest


@pytest.mark.parametrize(("needed", "position"), [(1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (8, 3)])
def test_the_smallest_bucket_that_holds_the_tiles(needed, position):
    assert smallest((1, 2, 4, 8), needed) == position


def test_more_than_the_largest_is_an_error_of_the_caller():
    with pytest.raises(ValueError, match=r"9 needed, the largest of \[1, 8\] is too small"):
        smallest((1, 8), 9)


def test_a_bucket_holds_more_tiles_of_fewer_candidates():
    bucket = Bucket(tiles=2, size=8, id_columns=3, dense_columns=1, labels=2)
    for tiles, size in ((2, 8), (4, 4), (16, 1)):
        assert bucket.inputs(tiles, size)["item_ids"].shape == (tiles, size, 3)
        assert bucket.inputs(tiles, size)["user_of_tile"].shape == (tiles,)
        assert bucket.output(tiles, size).shape == (tiles, size, 2)


def test_views_are_contiguous_and_share_the_buffers():
    bucket = Bucket(tiles=4, size=8, id_columns=3, dense_columns=0, labels=2)
    inputs, scores_CPK = bucket.inputs(3, 5), bucket.output(3, 5)
    assert {name: array.shape for name, array in inputs.items()} == {
        "item_ids": (3, 5, 3),
        "item_dense": (3, 5, 0),
        "user_of_tile": (3,),
    }
    assert scores_CPK.shape == (3, 5, 2)
    assert all(array.flags.c_contiguous for array in [*inputs.values(), scores_CPK])
    inputs["item_ids"][2, 4] = 7
    scores_CPK[2, 4] = 0.5
    assert np.flatnonzero(bucket.item_ids_RF[:, 0]).tolist() == [14]
    assert np.flatnonzero(bucket.scores_RK[:, 0]).tolist() == [14]
