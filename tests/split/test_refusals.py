"""What the compiler refuses, and what its message says."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.split.harness import SIDES, Model, randn
from triton_ads.split import SplitError, SplitMismatchError, check_parity, check_row_independence, split

INPUTS = {"user": randn(4, 3, seed=1), "item": randn(4, 2, seed=2)}


def refuse(model: nn.Module, match: str, inputs: dict[str, Tensor] = INPUTS) -> None:
    with pytest.raises(SplitError, match=match):
        split(model.eval(), inputs, SIDES)


def test_random_operators() -> None:
    refuse(Model(lambda m, user, item: item * torch.rand_like(item) + user.sum(1, True)), r"\.py:\d+.*random")


def test_dropout_that_is_on() -> None:
    refuse(Model(lambda m, user, item: torch.dropout(item, 0.5, True) + user.sum(1, True)), r"\.py:\d+.*random")


def test_dropout_that_is_off() -> None:
    model = Model(lambda m, user, item: torch.dropout(item, 0.5, False) + user.sum(1, True)).eval()
    assert check_parity(model, split(model, INPUTS, SIDES), INPUTS) <= 1e-6


def test_a_row_that_knows_its_position() -> None:
    refuse(
        Model(lambda m, user, item: item + torch.arange(item.shape[0]).unsqueeze(1) + user.sum(1, True)),
        r"\.py:\d+.*must not know its position",
    )


def test_an_embedding_bag_is_told_what_to_use_instead() -> None:
    class Bags(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(10, 2)

        def forward(self, user: Tensor, item: Tensor) -> Tensor:
            return self.bag((user > 0).long()) + item

    refuse(Bags(), r"\.py:\d+: .* numbers the rows \(nn\.EmbeddingBag does; take a lookup and a masked sum\)")


def line_of(model: type[nn.Module], offset: int) -> str:
    """A line of a model of this file, counted from its `def forward`, as messages name it."""
    return f"{__file__}:{model.forward.__code__.co_firstlineno + offset}"


class BakedByAView(nn.Module):
    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        doubled = item * 2
        return doubled.reshape(4, 2) + user.sum(1, True)


class BakedByInt(nn.Module):
    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        rows = int(item.shape[0])
        return torch.stack([item[row] for row in range(rows)]) + user.sum(1, True)


class DecidedByAValue(nn.Module):
    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        doubled = item * 2
        return doubled if doubled.sum() > 0 else user[:, :2]


@pytest.mark.parametrize(
    ("model", "offset", "why"),
    [
        (BakedByAView, 2, r"constant \(4\)"),
        (BakedByInt, 1, r"constant \(4\)"),
        (DecidedByAValue, 2, "data-dependent"),
    ],
)
def test_a_batch_that_is_not_free_is_named_with_its_line(model: type[nn.Module], offset: int, why: str) -> None:
    refuse(model(), f"^{re.escape(line_of(model, offset))}: the model cannot be exported with a .*{why}")


class RowsAcrossFeatures(nn.Module):
    """Rows and features in one axis, cut in another way than they were put together."""

    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        columns = user.transpose(0, 1).reshape(-1)  # [3 M], feature by feature
        across = columns.reshape(user.shape[0], 3)
        return across * item[:, :1]


def test_a_batch_axis_that_cannot_be_followed() -> None:
    refuse(RowsAcrossFeatures(), rf"^{re.escape(line_of(RowsAcrossFeatures, 2))}: .*cannot be followed")


class Centred(nn.Module):
    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        centre = item.mean(0)
        return item - centre + user.sum(1, True)


def test_what_leaves_no_batch_axis() -> None:
    refuse(Centred(), rf"^{re.escape(line_of(Centred, 1))}: aten\.mean\.dim leaves no batch axis: \[2\]")


@pytest.mark.parametrize("chosen", [0, slice(0, 1)])
def test_one_row_for_all(chosen: object) -> None:
    refuse(Model(lambda m, user, item: item + user.sum(1, True) * item[chosen].reshape(1, 2)), "leaves no batch axis")


def test_constants_of_the_type_of_a_value_are_no_rows() -> None:
    model = Model(
        lambda m, user, item: item * item.new_ones(2) + user.new_full((user.shape[0], 1), 3.0) + user.sum(1, True)
    ).eval()
    assert check_parity(model, split(model, INPUTS, SIDES), INPUTS) <= 1e-6


def test_several_outputs() -> None:
    class Two(nn.Module):
        def forward(self, user: Tensor, item: Tensor) -> tuple[Tensor, Tensor]:
            return user, item

    refuse(Two(), "must return one tensor of scores, it returns 2")


def test_no_output() -> None:
    refuse(Model(lambda m, user, item: None), "must return one tensor of scores, it returns none")


@pytest.mark.parametrize(
    "function",
    [
        lambda m, user, item: torch.sigmoid(user.sum(1) + item.sum(1)),
        lambda m, user, item: (item + user[:, :2]).unsqueeze(2),
        lambda m, user, item: (item + user[:, :2]).t(),
    ],
)
def test_scores_that_are_no_table_of_rows_and_labels(function: object) -> None:
    refuse(Model(function), r"scores of shape \[.*\] found, \[s\d+, K\] is needed")  # type: ignore[arg-type]


def test_a_type_that_cannot_travel_is_named_with_the_line() -> None:
    refuse(
        Model(lambda m, user, item: torch.fft.irfft(torch.fft.rfft(item) * torch.fft.rfft(user)).sum(1, True)),
        r"\.py:\d+: a user's value of torch\.complex64 is read",
    )


def test_a_module_in_training_mode() -> None:
    with pytest.raises(SplitError, match="training mode"):
        split(nn.Linear(3, 1).train(), INPUTS, SIDES)


def test_inputs_without_a_side_or_a_side_without_inputs() -> None:
    model = Model(lambda m, user, item: item + user.sum(1, True))
    with pytest.raises(SplitError, match=r"inputs \['item'\] have no side"):
        split(model.eval(), INPUTS, {"user": "user"})
    with pytest.raises(SplitError, match="no input of side user"):
        split(model.eval(), INPUTS, {"user": "item", "item": "item"})


def test_example_inputs_of_one_row_or_of_different_rows() -> None:
    model = Model(lambda m, user, item: item + user.sum(1, True))
    refuse(model, "same number of rows, 2 or more", {"user": randn(1, 3), "item": randn(1, 2)})
    refuse(model, "same number of rows, 2 or more", {"user": randn(2, 3), "item": randn(3, 2)})


class MixedBySoftmax(nn.Module):
    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        shares = item.softmax(0)
        return shares + user.sum(1, True)


class MixedByAMean(nn.Module):
    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        return item - item.mean(0) + user.sum(1, True)


class MixedByARunningSum(nn.Module):
    def forward(self, user: Tensor, item: Tensor) -> Tensor:
        total = user.sum(1, True)
        return item + total.cumsum(0)


@pytest.mark.parametrize(
    ("model", "offset", "operator"),
    [
        (MixedBySoftmax, 1, "aten.softmax.int"),
        (MixedByAMean, 1, "aten.mean.dim"),
        (MixedByARunningSum, 2, "aten.cumsum.default"),
    ],
)
def test_a_model_that_mixes_rows_is_refused_with_the_operator_and_its_line(
    model: type[nn.Module], offset: int, operator: str
) -> None:
    with pytest.raises(SplitMismatchError) as refused:
        check_row_independence(model().eval(), INPUTS)
    assert str(refused.value).startswith("the model is not row-wise: a row alone: scores differ by ")
    assert str(refused.value).endswith(f"; rows first meet at {line_of(model, offset)}: {operator}")


def test_a_batch_norm_in_training_mode_mixes_rows() -> None:
    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3, track_running_stats=False)

        def forward(self, user: Tensor, item: Tensor) -> Tensor:
            return self.norm(user.unsqueeze(2) * item.unsqueeze(1)).sum(2)

    with pytest.raises(SplitMismatchError, match="not row-wise"):
        check_row_independence(Normalised(), INPUTS)


def test_a_row_wise_model_passes_the_check_of_rows() -> None:
    assert check_row_independence(Model(lambda m, user, item: item + user.sum(1, True)), INPUTS) <= 1e-6


def test_parts_of_another_model_fail_the_parity_check() -> None:
    right = Model(lambda m, user, item: item + user.sum(1, True)).eval()
    wrong = Model(lambda m, user, item: item + 1.001 * user.sum(1, True)).eval()
    with pytest.raises(SplitMismatchError, match="the parts differ from the model"):
        check_parity(right, split(wrong, INPUTS, SIDES), INPUTS)


def test_nan_is_a_mismatch() -> None:
    model = Model(lambda m, user, item: (item + user.sum(1, True)) * float("nan")).eval()
    with pytest.raises(SplitMismatchError):
        check_parity(model, split(model, INPUTS, SIDES), INPUTS)


@pytest.mark.parametrize(
    "values",
    [
        lambda m, user, item: (item.unsqueeze(2) * user.unsqueeze(1))[:, m.mask].sum(1, True),
        lambda m, user, item: torch.unique(user > 0, return_inverse=True)[1].float().sum(1, True) + item,
    ],
)
def test_sizes_that_depend_on_values(values: Callable[..., Tensor]) -> None:
    model = Model(values)
    model.register_buffer("mask", torch.ones(2, 3, dtype=torch.bool))
    refuse(model, r"\.py:\d+: .* sizes must not depend on values")


def test_a_model_that_fails_for_a_row_alone() -> None:
    """A batch norm without statistics of its own takes those of the batch."""

    class Normed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(2, track_running_stats=False)

        def forward(self, user: Tensor, item: Tensor) -> Tensor:
            return self.norm(item) + user.sum(1, True)

    where = re.escape(line_of(Normed, 1))
    with pytest.raises(
        SplitMismatchError, match=f"{where}: the model fails for a row alone: ValueError: Expected more"
    ):
        check_row_independence(Normed().eval(), INPUTS)


def test_an_exporter_that_gives_up_prints_no_graph(capfd: pytest.CaptureFixture[str]) -> None:
    refuse(Model(lambda m, user, item: item if (user > 0).any() else -item), "free batch axis: Could not guard")
    assert "def forward" not in capfd.readouterr().err
