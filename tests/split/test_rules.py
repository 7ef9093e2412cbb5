"""Every rule, on the smallest model that needs it: same scores, and nothing copied by row."""

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.split.harness import Model, randn, split_and_check

M = 5
# user [M, 3, 4], item [M, 2, 4]: joined along the tokens [M, 5, 4] or along the features after flattening [M, 20]
INPUTS = {"user": randn(M, 3, 4, seed=1), "item": randn(M, 2, 4, seed=2)}
FLAT = {"user": randn(M, 6, seed=3), "item": randn(M, 2, seed=4)}


def tokens(user: Tensor, item: Tensor) -> Tensor:
    return torch.cat([user, item], 1)


def interleaved(user: Tensor, item: Tensor) -> Tensor:
    """user, item, user, item along the tokens: four blocks."""
    return torch.cat([user[:, :2], item[:, :1], user[:, 2:], item[:, 1:]], 1)


def score(x: Tensor) -> Tensor:
    """Any value as scores [M, 1], by an operator that every rule set covers."""
    return x.flatten(1).sum(1, keepdim=True)


W = {"w": randn(7, 4, seed=5), "b": randn(7, seed=6), "wide": randn(7, 20, seed=7), "y": randn(5, 3, seed=8)}
LEFT = {"left": randn(3, 5, seed=9), "per_token": randn(5, 4, 6, seed=10), "one": randn(1, 4, 6, seed=11)}

CASES: dict[str, Callable[..., Tensor]] = {
    "linear over joined features": lambda m, user, item: F.linear(tokens(user, item).flatten(1), m.wide, m.b),
    "linear over four blocks": lambda m, user, item: F.linear(interleaved(user, item).flatten(1), m.wide, m.b),
    "side by side, as NumPy has it": lambda m, user, item: F.linear(
        torch.hstack([user.flatten(1), item.flatten(1)]), m.wide, m.b
    ),
    "another name of cat": lambda m, user, item: F.linear(torch.concat([user, item], 1).flatten(1), m.wide, m.b),
    "columns": lambda m, user, item: F.linear(
        torch.column_stack([user.flatten(1), item.flatten(1)]), m.wide, m.b
    ).tanh(),
    "a product over pairs of axes": lambda m, user, item: torch.tensordot(
        tokens(user, item).flatten(1), m.wide, dims=([1], [1])
    ).tanh(),
    "linear per token": lambda m, user, item: score(F.linear(tokens(user, item), m.w, m.b).relu()),
    "matmul contracting tokens": lambda m, user, item: score((tokens(user, item).transpose(1, 2) @ m.y).tanh()),
    "static matrix contracting tokens": lambda m, user, item: score((m.left @ tokens(user, item)).tanh()),
    "weights of their own per token": lambda m, user, item: score(
        torch.bmm(tokens(user, item).transpose(0, 1), m.per_token).tanh().transpose(0, 1)
    ),
    "weights with a broadcast axis": lambda m, user, item: score(
        torch.matmul(tokens(user, item).transpose(0, 1), m.one).tanh().transpose(0, 1)
    ),
    "matmul over joined features": lambda m, user, item: (tokens(user, item).flatten(1) @ m.wide.t()).tanh(),
    "norm per token": lambda m, user, item: score(F.layer_norm(tokens(user, item), (4,)) ** 2),
    "rms norm per token": lambda m, user, item: score(F.rms_norm(tokens(user, item), (4,)) ** 3),
    "softmax per token": lambda m, user, item: score(tokens(user, item).softmax(-1) ** 2),
    "sum over tokens": lambda m, user, item: tokens(user, item).sum(1).tanh(),
    "mean over tokens": lambda m, user, item: tokens(user, item).mean(1).tanh(),
    "mean over four blocks": lambda m, user, item: interleaved(user, item).mean(1, keepdim=True).tanh().flatten(1),
    "maximum over tokens": lambda m, user, item: tokens(user, item).amax(1),
    "minimum over tokens": lambda m, user, item: tokens(user, item).amin(1),
    "sum over features of tokens": lambda m, user, item: tokens(user, item).sum(2).tanh(),
    "pointwise on blocks of equal borders": lambda m, user, item: score(tokens(user, item) * tokens(user + 1, item)),
    "pointwise on blocks of other borders": lambda m, user, item: score(tokens(user, item) * interleaved(user, item)),
    "item value over blocks": lambda m, user, item: score(tokens(user, item) * item.repeat(1, 3, 1)[:, :5]),
    "item value broadcast over blocks": lambda m, user, item: score(tokens(user, item) * item[:, :1]),
    "static over blocks": lambda m, user, item: score(tokens(user, item) * m.y[:, :1] + m.y[:, 1:2]),
    "user minus item": lambda m, user, item: score((user - item[:, :1]).abs()),
    "where on a user's mask": lambda m, user, item: score(torch.where(user > 0, item[:, :1], -1e4).softmax(1) ** 2),
    "masked_fill": lambda m, user, item: score(item[:, :1].masked_fill(user[:, :1] > 0, 0.5).tanh()),
    "flatten, unflatten": lambda m, user, item: score(
        tokens(user, item).flatten(1).unflatten(1, (5, 4)).softmax(-1) ** 2
    ),
    "view across a border": lambda m, user, item: score(
        tokens(user, item).flatten(1).unflatten(1, (10, 2)).softmax(-1)
    ),
    "padding behind joined features": lambda m, user, item: F.linear(
        F.pad(tokens(user, item).flatten(1)[:, :17], (0, 3), value=0.5), m.wide, m.b
    ),
    "permute": lambda m, user, item: score((tokens(user, item).permute(2, 0, 1) * 2).tanh().permute(1, 2, 0)),
    "unsqueeze, squeeze": lambda m, user, item: score(tokens(user, item).unsqueeze(1).squeeze(1).sin()),
    "expand": lambda m, user, item: score(tokens(user, item).unsqueeze(3).expand(-1, -1, -1, 2).sin()),
    "slice of tokens": lambda m, user, item: score(tokens(user, item)[:, 1:4].sin()),
    "slice of features": lambda m, user, item: score(tokens(user, item)[:, :, 1:3].sin()),
    "select a user's token": lambda m, user, item: (tokens(user, item)[:, 1] * tokens(user, item)[:, -1]).sin(),
    "select a feature": lambda m, user, item: tokens(user, item)[:, :, -1].sin(),
    "split in two": lambda m, user, item: score(torch.stack(tokens(user, item)[:, :4].split(2, 1), 2).sin()),
    "split with sizes": lambda m, user, item: score(torch.cat(tokens(user, item).split([1, 4], 1)[::-1], 1).sin()),
    "chunk": lambda m, user, item: (lambda a, b: score((a[:, :2] * b).sin()))(*tokens(user, item).chunk(2, 1)),
    "unbind": lambda m, user, item: torch.stack(tokens(user, item).unbind(1), 1).sin().flatten(1),
    "stack": lambda m, user, item: score(torch.stack([user[:, :2], item], 1).sin()),
    "item rows by a user's matrix": lambda m, user, item: score((item @ user.transpose(1, 2)).softmax(-1) @ user),
    "user's rows by an item's matrix": lambda m, user, item: score((user @ item.transpose(1, 2)).tanh()),
    "blocks by an item's matrix": lambda m, user, item: score((tokens(user, item) @ item.transpose(1, 2)).tanh()),
    "item rows by blocks": lambda m, user, item: score((item @ tokens(user, item).transpose(1, 2)).tanh()),
    "products with leading axes": lambda m, user, item: score(
        item.unflatten(2, (2, 2)).transpose(1, 2) @ user.unflatten(2, (2, 2)).permute(0, 2, 3, 1)
    ),
    "a user's number gates": lambda m, user, item: item.sum(2) * user.sum((1, 2)).unsqueeze(1),
    "detach, clone, cast": lambda m, user, item: score(tokens(user, item).detach().clone().double().float().sin()),
    "sizes of the batch": lambda m, user, item: (
        score(tokens(user, item).reshape(user.shape[0], -1, 2).sin()) + torch.zeros(user.shape[0], 1)
    ),
}

#: A token that straddles the border of user and item is an item's; a stack of blocks is made whole.
MAY_COPY = {"view across a border", "split in two"}


@pytest.mark.parametrize("name", CASES)
def test_same_scores_and_nothing_copied_by_row(name: str) -> None:
    parts = split_and_check(Model(CASES[name], **W, **LEFT), INPUTS)
    assert name in MAY_COPY or parts.unshared == (), parts.unshared


def test_lookup_of_ids_of_both_sides_is_one_lookup_a_side() -> None:
    def function(m: Model, user_ids: Tensor, item_ids: Tensor) -> Tensor:
        return F.embedding(torch.cat([user_ids, item_ids], 1), m.table).flatten(1).sin()

    ids = {"user_ids": torch.tensor([[1, 2], [3, 0], [2, 2]]), "item_ids": torch.tensor([[4], [0], [1]])}
    parts = split_and_check(Model(function, table=randn(5, 3)), ids)
    assert parts.unshared == ()
    assert parts.state_size == 2 * 3


#: Values of several types and empty blocks, on the ids and numbers of `FLAT`.
TYPES: dict[str, Callable[..., Tensor]] = {
    "count of a mask": lambda m, user, item: torch.cat([user > 0, item > 0], 1).sum(1, True) * 0.3,
    "mean over what is known": lambda m, user, item: (
        torch.cat([user, item], 1).sum(1, True) / (torch.cat([user, item], 1) > 0).sum(1, keepdim=True).clamp(min=1)
    ),
    "bools beside floats": lambda m, user, item: torch.cat([user > 0, item], 1).sum(1, True),
    "ints beside floats": lambda m, user, item: torch.cat([(user * 10).long(), user, item], 1).sum(1, True),
    "bools beside ints": lambda m, user, item: torch.cat([user > 0, (item * 9).long()], 1).sum(1, True) * 0.3,
    "ints into a linear layer": lambda m, user, item: F.linear(torch.cat([(user * 10).long(), item], 1), m.w),
    "power of a mix": lambda m, user, item: (torch.cat([(user * 10).long(), item], 1) + 0.5).pow(2),
    "softmax that is told its type": lambda m, user, item: torch.stack(
        [torch.softmax(torch.cat([user, item], 1).unflatten(1, (4, 2)).long(), -1, dtype=torch.float32)[:, :, 0]], 2
    ).flatten(1),
    "mean with an empty item block": lambda m, user, item: torch.cat([user, item[:, :0]], 1).mean(1, True) + item,
    "maximum with an empty user block": lambda m, user, item: (
        torch.cat([user[:, :0], item], 1).amax(1, True) + user[:, :1]
    ),
    "an empty slice": lambda m, user, item: torch.cat([user, item], 1).unsqueeze(2)[:, :, 3:1].sum(2),
    "a matrix that adds an axis": lambda m, user, item: (torch.cat([user, item], 1)[:, None, None] @ m.stack)[:, 2, 0],
    "a vector as weights": lambda m, user, item: F.linear(torch.cat([user, item], 1), m.w[0]).unsqueeze(1),
    "only an empty part of the user": lambda m, user, item: torch.cat([item, user[:, :0]], 1).cumsum(1),
    "mantissa and exponent": lambda m, user, item: torch.frexp(torch.cat([user, item], 1)).mantissa,
}


@pytest.mark.parametrize("name", TYPES)
def test_types_and_empty_blocks(name: str) -> None:
    model = Model(TYPES[name], w=randn(3, 8, seed=12), stack=randn(3, 8, 2, seed=13))
    parts = split_and_check(model, FLAT)
    assert parts.user(FLAT["user"]).shape == (M, parts.state_size)


OTHERS: dict[str, Callable[..., Tensor]] = {
    "bounds that are values": lambda m, user, item: score(torch.clamp(item, min=user[:, :2], max=user[:, :2] + 0.5)),
    "attention in one operator": lambda m, user, item: score(F.scaled_dot_product_attention(item, user, user)),
    "blocks in one operator": lambda m, user, item: score(
        F.scaled_dot_product_attention(item, tokens(user, item), tokens(user, item))
    ),
    "norm across the blocks": lambda m, user, item: score(F.layer_norm(tokens(user, item).flatten(1), (20,)) ** 2),
    "softmax across the blocks": lambda m, user, item: score(tokens(user, item).softmax(1) ** 2),
    "sorted tokens": lambda m, user, item: tokens(user, item).flatten(1).sort(1).values,
    "chosen tokens": lambda m, user, item: score(tokens(user, item)[:, torch.tensor([4, 0, 2])].sin()),
    "every other token": lambda m, user, item: score(tokens(user, item)[:, ::2].sin()),
    "repeated": lambda m, user, item: score(tokens(user, item).repeat(1, 2, 1).sin()),
    "flipped": lambda m, user, item: score((tokens(user, item).flip(1) * tokens(user, item)).sin()),
    "a batch axis in the middle": lambda m, user, item: score(
        (user[:, :2].transpose(0, 1) * item.transpose(0, 1)).sin().transpose(0, 1)
    ),
    "fewer axes": lambda m, user, item: score((item.permute(1, 2, 0) * user.sum((1, 2))).sin().permute(2, 0, 1)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_no_rule_covers_is_right_all_the_same(name: str) -> None:
    split_and_check(Model(OTHERS[name]), INPUTS)


def test_an_operator_without_a_rule_is_right_and_reported_with_its_line() -> None:
    parts = split_and_check(Model(lambda m, user, item: torch.cumsum(tokens(user, item), 1).flatten(1).sin()), INPUTS)
    (copy,) = parts.unshared
    assert copy.operator == "aten.cumsum.default"
    assert copy.elements == 12
    assert ".py:" in copy.source


@pytest.mark.parametrize("values", [[0, 1, -1, 5], [2**24 + 1, -(2**24) - 1, 2**43, -(2**43) - 7]])
def test_an_integer_crosses_the_cut_exactly(values: list[int]) -> None:
    def function(m: Model, user_ids: Tensor, item_ids: Tensor) -> Tensor:
        return (user_ids == item_ids).float()  # compared as integers: one off would show

    ids = torch.tensor(values).unsqueeze(1)
    parts = split_and_check(Model(function), {"user_ids": ids, "item_ids": ids})
    assert [entry.dtype for entry in parts.state] == ["int64"]
    everyone = parts.run(
        {"user_ids": ids, "item_ids": ids.reshape(1, -1, 1).repeat(len(values), 1, 1)}, torch.arange(4)
    )
    assert torch.equal(everyone.squeeze(2), torch.eye(4))


def test_a_value_and_its_transpose_travel_once() -> None:
    parts = split_and_check(
        Model(lambda m, user, item: score((item @ user.sin().transpose(1, 2)).softmax(-1) @ user.sin())), INPUTS
    )
    assert parts.state_size <= 2 * 12


def test_scores_that_ignore_the_user_still_have_a_state() -> None:
    parts = split_and_check(Model(lambda m, user, item: item.flatten(1)), INPUTS)
    assert parts.state_size == 1
    assert parts.state == ()


def test_scores_of_the_user_alone_are_copied_to_every_candidate() -> None:
    parts = split_and_check(Model(lambda m, user, item: user.flatten(1)), INPUTS)
    assert parts.state_size == 12


def test_worked_number_of_a_linear_layer_pushed_down() -> None:
    """W = [1 2 10], b = 100: the user's share of u = (3, 4) is 3 + 8 + 100 = 111; an item of 5 adds 50."""

    def function(m: Model, user: Tensor, item: Tensor) -> Tensor:
        return F.linear(torch.cat([user, item], 1), m.w, m.b)

    model = Model(function, w=torch.tensor([[1.0, 2.0, 10.0]]), b=torch.tensor([100.0]))
    parts = split_and_check(model, {"user": randn(2, 2), "item": randn(2, 1)})
    state = parts.user(torch.tensor([[3.0, 4.0]]))
    assert state.tolist() == [[111.0]]
    assert parts.item(state, torch.tensor([0]), torch.tensor([[[5.0], [0.0]]])).tolist() == [[[161.0], [111.0]]]
