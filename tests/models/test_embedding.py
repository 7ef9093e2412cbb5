"""The embedding against loops, and what PAD, OOV and unknown ids become."""

import numpy as np
import pytest
import torch

from tests.models.reference import EmbeddingReference, rows_of, weights_of
from tests.models.support import ROWS
from tests.support.recipes import tiny_recipe
from triton_ads.models.embedding import Embedded, Embedding
from triton_ads.models.example import example_inputs
from triton_ads.recipe import Recipe


def tiny_embedding(recipe: Recipe | None = None) -> Embedding:
    torch.manual_seed(0)
    embedding = Embedding(recipe or tiny_recipe(), ROWS, dense_width=5)
    if embedding.user_dense is not None:
        embedding.user_dense.standardise(torch.tensor([0.5]), torch.tensor([2.0]))
    return embedding


def embed(embedding: Embedding, inputs: dict[str, torch.Tensor]) -> Embedded:
    names = ("user_ids", "item_ids", "user_dense", "sequence_ids", "item_dense")
    return embedding(*(inputs.get(name) for name in names))


def test_equals_looking_up_every_id_by_itself() -> None:
    recipe, embedding = tiny_recipe(), tiny_embedding()
    inputs = example_inputs(recipe, ROWS, rows=40)
    for name, where in (("user_ids", (0, 0)), ("item_ids", (1, 2)), ("sequence_ids", (2, 7))):
        inputs[name][where] = -1
        inputs[name][where[0] + 10, where[1]] = 2**62
    found, reference = embed(embedding, inputs), EmbeddingReference(recipe, ROWS, weights_of(embedding))
    for m, row in enumerate(rows_of(inputs)):
        features, histories, domain, scenario = reference(row)
        assert [f.shape[1] for f in found.features] == [len(f) for f in features] == embedding.widths
        for mine, theirs in zip(found.features, features, strict=True):
            np.testing.assert_allclose(mine[m].detach().numpy(), theirs, atol=1e-6)
        for history, (events, valid) in zip(found.histories, histories, strict=True):
            np.testing.assert_allclose(history.events_MTE[m].detach().numpy(), events, atol=1e-6)
            assert history.valid_MT[m].tolist() == valid
        assert found.scenario_MG is not None and found.scenario_rows_M is not None
        np.testing.assert_allclose(found.scenario_MG[m].detach().numpy(), domain, atol=1e-6)
        assert int(found.scenario_rows_M[m]) == scenario


def test_pooled_ids_are_a_mean_that_padding_does_not_enter() -> None:
    recipe = tiny_recipe(features=[*tiny_features(), ids_feature(3)])
    embedding = tiny_embedding(recipe)
    inputs = example_inputs(recipe, ROWS, rows=4)
    inputs["item_ids"][:, -3:] = torch.tensor([[2, 4, 0], [0, 4, 0], [0, 0, 0], [2, 2, 4]])
    item = embedding.table.weight.detach()[12:26].reshape(7, 8)  # behind the 6 users' 12 physical rows of 4 floats
    pooled = embed(embedding, inputs).features[-2]  # before the dense projection
    expected = torch.stack([(item[2] + item[4]) / 2, item[4], torch.zeros(8), (2 * item[2] + item[4]) / 3])
    torch.testing.assert_close(pooled, expected)


def tiny_features() -> list[dict[str, object]]:
    return [
        {"name": "user_id", "side": "user", "table": "user"},
        {"name": "activity", "side": "user", "kind": "dense"},
        {"name": "place", "side": "context", "table": "place"},
        {"name": "item_id", "side": "item", "table": "item"},
    ]


def ids_feature(length: int) -> dict[str, object]:
    return {"name": "similar", "side": "item", "kind": "ids", "table": "item", "length": length}


def test_pad_is_zero_and_learns_nothing() -> None:
    recipe, embedding = tiny_recipe(), tiny_embedding()
    inputs = example_inputs(recipe, ROWS, rows=1)
    for name in ("user_ids", "item_ids", "sequence_ids"):
        inputs[name].zero_()
    found = embed(embedding, inputs)
    vectors = [*found.features[:-1], *(h.events_MTE for h in found.histories)]
    assert all(not v.detach().any() for v in vectors)
    assert not any(h.valid_MT.any() for h in found.histories)
    torch.stack([v.sum() for v in vectors]).sum().backward()
    assert embedding.table.weight.grad is not None
    assert not embedding.table.weight.grad.any()


def test_what_is_read_learns_and_nothing_else() -> None:
    recipe, embedding = tiny_recipe(), tiny_embedding()
    inputs = example_inputs(recipe, ROWS, rows=1)
    for name in ("user_ids", "item_ids", "sequence_ids"):
        inputs[name].zero_()
    inputs["user_ids"][0, 0] = 3  # user 3: physical rows 6 and 7
    torch.cat(embed(embedding, inputs).features, dim=1).sum().backward()
    assert embedding.table.weight.grad is not None
    assert embedding.table.weight.grad.any(dim=1).nonzero().flatten().tolist() == [6, 7]


@pytest.mark.parametrize("unknown", [-1, -(2**63), 100, 2**63 - 1])
@pytest.mark.parametrize("name", ["user_ids", "item_ids", "sequence_ids"])
def test_an_id_that_cannot_be_is_oov(name: str, unknown: int) -> None:
    recipe, embedding = tiny_recipe(), tiny_embedding()
    inputs = example_inputs(recipe, ROWS, rows=2)
    answers = []
    for value in (1, unknown):
        inputs[name] = torch.full_like(inputs[name], value)
        found = embed(embedding, inputs)
        answers.append([*found.features, *(h.events_MTE for h in found.histories), found.scenario_MG])
    for oov, other in zip(*answers, strict=True):
        assert oov is not None and other is not None
        assert torch.equal(oov, other)


def test_an_event_with_any_field_is_no_padding() -> None:
    recipe, embedding = tiny_recipe(), tiny_embedding()
    inputs = example_inputs(recipe, ROWS, rows=1)
    inputs["sequence_ids"] = torch.tensor([[0, 5, 0, 0, 3, 0, 0, 1]])  # three events of two fields, two of one
    first, second = embed(embedding, inputs).histories
    assert first.valid_MT.tolist() == [[True, False, True]]
    assert second.valid_MT.tolist() == [[False, True]]


def test_dense_columns_are_standardised_then_projected() -> None:
    embedding = tiny_embedding()
    assert embedding.user_dense is not None
    embedding.user_dense.linear.load_state_dict(
        {"weight": torch.tensor([[1.0], [2.0], [0.0], [0.0], [-1.0]]), "bias": torch.tensor([0.0, 0, 7, 0, 0])}
    )
    inputs = example_inputs(tiny_recipe(), ROWS, rows=1)
    inputs["user_dense"] = torch.tensor([[4.5]])  # (4.5 - 0.5) / 2 = 2
    assert embed(embedding, inputs).features[-1].tolist() == [[2.0, 4.0, 7.0, 0.0, -2.0]]


def test_a_dense_column_that_never_varies_is_only_centred() -> None:
    embedding = tiny_embedding()
    assert embedding.user_dense is not None
    embedding.user_dense.standardise(torch.tensor([3.0]), torch.tensor([0.0]))
    assert torch.equal(embedding.user_dense(torch.tensor([[3.0]])), embedding.user_dense.linear.bias[None])


@pytest.mark.parametrize(
    ("name", "columns", "message"),
    [
        ("user_ids", 4, "user_ids: 4 columns found, 3 needed"),
        ("item_ids", 0, "item_ids: 0 columns found, 3 needed"),
        ("user_dense", None, "user_dense: 0 columns found, 1 needed"),
        ("sequence_ids", None, "sequence_ids: 0 columns found, 8 needed"),
        ("item_dense", 1, "item_dense: 1 columns found, 0 needed: give None"),
    ],
)
def test_other_columns_are_refused(name: str, columns: int | None, message: str) -> None:
    inputs = example_inputs(tiny_recipe(), ROWS, rows=2)
    if columns is None:
        del inputs[name]
    else:
        inputs[name] = torch.zeros(2, columns, dtype=torch.int64)
    with pytest.raises(ValueError, match=message):
        embed(tiny_embedding(), inputs)
