"""What the compiler refuses, and what its message says."""

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


def test_a_batch_size_baked_in() -> None:
    refuse(Model(lambda m, user, item: item.reshape(4, 2) + user.sum(1, True)), "free batch axis")


def test_a_batch_axis_that_cannot_be_followed() -> None:
    def function(m: Model, user: Tensor, item: Tensor) -> Tensor:
        merged = user.reshape(-1, 1).sin() * item[:, :1].repeat(1, 3).reshape(-1, 1)  # rows and features in one axis
        return merged.reshape(user.shape[0], 3)

    refuse(Model(function), r"\.py:\d+.*the batch axis cannot be followed")


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
        Model(lambda m, user, item: (item.double() + user.double().sum(1, True)).float()),
        r"\.py:\d+: a user's value of torch\.float64 is read",
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


def test_a_model_that_mixes_rows_passes_the_split_and_fails_the_check_of_rows() -> None:
    model = Model(lambda m, user, item: item - item.mean(0) + user.sum(1, True)).eval()
    with pytest.raises(SplitMismatchError, match="not row-wise: a row alone"):
        check_row_independence(model, INPUTS)


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
