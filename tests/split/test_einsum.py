"""torch.einsum in terms of matrix products: the same numbers, and the user's share of a product of several."""

import pytest
import torch
from torch import Tensor

from tests.split.harness import Model, randn, split_and_check
from triton_ads.split.einsum import einsum
from triton_ads.split.report import report

EQUATIONS = [  # equation, shapes; b is what a batch would be
    ("mx,nxh->mnh", (5, 3), (2, 3, 4)),
    ("bt,btd->bd", (5, 3), (5, 3, 4)),
    ("bthd,bqhd->bhqt", (5, 3, 2, 4), (5, 6, 2, 4)),
    ("btd,btd->bt", (5, 3, 2), (5, 3, 2)),
    ("bid,bjd->bij", (5, 3, 2), (5, 4, 2)),
    ("mtx,xh->mth", (5, 3, 2), (2, 4)),
    ("mnx,nxh->mnh", (5, 3, 2), (3, 2, 4)),
    ("bd,bd->b", (5, 3), (5, 3)),
    ("b,bd->bd", (5,), (5, 3)),
    ("bi,bj->bij", (5, 3), (5, 4)),
    ("bdx,bk->bk", (5, 2, 3), (5, 4)),
    ("xh,mx->hm", (3, 4), (5, 3)),
    ("btd,d->bt", (5, 3, 2), (2,)),
    ("d,btd->bt", (2,), (5, 3, 2)),
    ("bxyz,xyz->b", (5, 2, 3, 4), (2, 3, 4)),
    ("bxy,xyhk->bhk", (5, 2, 3), (2, 3, 4, 2)),
]
OTHERS = [  # of one operand, of more than two, with dots, without a result
    ("bij->bji", [(5, 2, 3)]),
    ("bij->b", [(5, 2, 3)]),
    ("bij", [(5, 2, 3)]),
    ("bd,de,bte->bt", [(5, 3), (3, 4), (5, 6, 4)]),
    ("bi,kij,bj->bk", [(5, 3), (4, 3, 2), (5, 2)]),
    ("bt,btd,de,b->be", [(5, 3), (5, 3, 2), (2, 4), (5,)]),
    ("bi,bj,bk->bijk", [(5, 2), (5, 3), (5, 4)]),
    ("...d,...td->...t", [(5, 2), (5, 3, 2)]),
    ("...d,...d->...", [(5, 3, 2), (3, 2)]),  # the dots of the second stand for fewer axes
    ("b...,...d->b...d", [(5, 3), (3, 4)]),
    ("ij,jk", [(5, 3), (3, 4)]),
    ("cb,ca", [(5, 3), (5, 4)]),  # what stands once, sorted: "ab"
    ("b...i,ij", [(5, 2, 3), (3, 4)]),
]


@pytest.mark.parametrize(("equation", "left", "right"), EQUATIONS)
def test_two_operands(equation: str, left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = randn(*left, seed=1), randn(*right, seed=2)
    torch.testing.assert_close(einsum(equation, [a, b]), torch.einsum(equation, a, b))


@pytest.mark.parametrize(("equation", "shapes"), OTHERS)
def test_other_forms(equation: str, shapes: list[tuple[int, ...]]) -> None:
    operands = [randn(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    torch.testing.assert_close(einsum(equation, operands), torch.einsum(equation, *operands))


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [
        ("ii,ij->j", [(3, 3), (3, 3)]),
        ("bij,bjk->bik", [(1, 2, 3), (5, 3, 4)]),  # an axis of size 1 that is stretched
        ("...i,...i->...", [(1, 3), (5, 3)]),
    ],
)
def test_forms_that_stay_as_they_are(equation: str, shapes: list[tuple[int, ...]]) -> None:
    assert einsum(equation, [randn(*shape) for shape in shapes]) is NotImplemented


def test_the_users_share_of_three_operands_is_taken_once() -> None:
    """u [M, 4] W [3, 4, 5] i [M, 5]: u W is the user's, 2 x 4 x 15 FLOPs once; 2 x 15 are left per candidate."""

    def bilinear(m: Model, user: Tensor, item: Tensor) -> Tensor:
        return torch.einsum("bi,kij,bj->bk", user, m.w, item)

    inputs = {"user": randn(4, 4, seed=1), "item": randn(4, 5, seed=2)}
    counted = report(split_and_check(Model(bilinear, w=randn(3, 4, 5, seed=3)), inputs), inputs)
    assert (counted.flops_row, counted.flops_user, counted.flops_item) == (150, 120, 30)
    assert counted.unshared == []


def test_the_batch_stays_free_where_axes_of_size_one_are_stretched() -> None:
    def stretched(m: Model, user: Tensor, item: Tensor) -> Tensor:
        return torch.einsum("bd,bdk->bk", user + item, m.w)  # one matrix for all rows, though its axis is named b

    split_and_check(Model(stretched, w=randn(1, 4, 2)), {"user": randn(5, 4, seed=1), "item": randn(5, 4, seed=2)})
