"""The training loop on a log with planted structure, with the real models; the stage as a whole."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from tests.support.logs import planted_log, planted_recipe
from triton_ads.data import Examples
from triton_ads.data.prepare import write
from triton_ads.recipe import Recipe, parse_recipe
from triton_ads.training import new_model, train
from triton_ads.training.baselines import train_baselines
from triton_ads.training.fit import bce_loss, fit, predict, training_positions
from triton_ads.training.optimisers import build_optimisers, rate_factor
from triton_ads.training.train import measure, standardise


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    return planted_recipe()


@pytest.fixture(scope="module")
def data(recipe: Recipe, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    write(recipe, planted_log(), folder)
    return folder


@pytest.fixture(scope="module")
def examples(recipe: Recipe, data: Path) -> Examples:
    return Examples.load(recipe, data / "examples")


@pytest.fixture(scope="module", params=["standard", "high"])
def trained(request: pytest.FixtureRequest, recipe: Recipe, data: Path, tmp_path_factory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp(request.param)
    train(recipe, request.param, data, folder)
    return request.param, folder


def test_a_tier_finds_what_was_planted(trained: tuple[str, Path]) -> None:
    """The label is certain but for 10 % of noise: the best AUC is about 0.9, chance is 0.5."""
    quality = json.loads((trained[1] / "quality.json").read_text())
    assert set(quality) == {"cvr"}
    assert quality["cvr"]["auc"] > 0.8
    assert quality["cvr"]["calibration"] == pytest.approx(1, abs=0.15)


def test_the_checkpoint_loads_and_says_what_was_measured(
    trained: tuple[str, Path], recipe: Recipe, data: Path, examples: Examples
) -> None:
    tier, folder = trained
    model = new_model(recipe, tier, data)
    model.load_state_dict(torch.load(folder / "checkpoint.pt", weights_only=True))
    for part, name in (("validation", "validation.json"), ("test", "quality.json")):
        assert measure(model, examples, part) == json.loads((folder / name).read_text())


def test_the_same_seed_gives_the_same_parameters(recipe: Recipe, data: Path, tmp_path: Path) -> None:
    short = recipe.model_copy(update={"training": recipe.training.model_copy(update={"max_examples": 200})})
    for name in ("a", "b"):
        train(short, "standard", data, tmp_path / name)
    a, b = (torch.load(tmp_path / name / "checkpoint.pt", weights_only=True) for name in ("a", "b"))
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_oov_vectors_are_trained(recipe: Recipe, data: Path, examples: Examples) -> None:
    """Without id dropout row 1 of the user table would stay where it started."""
    moved = {}
    for rate in (0.0, 0.2):
        settings = recipe.training.model_copy(update={"oov_rate": rate, "max_examples": 300})
        torch.manual_seed(0)
        model = new_model(recipe, "standard", data)
        table = model.get_submodule("embedding").table.weight
        before = table.detach().clone()
        fit(model, examples, settings, "test")
        # The user table comes first; a vector of 16 floats is two physical rows of 8.
        moved[rate] = float((table.detach() - before)[2:4].abs().max())
    assert moved[0.0] == 0 and moved[0.2] > 0.01


def test_baselines(recipe: Recipe, data: Path, tmp_path: Path) -> None:
    train_baselines(
        recipe.model_copy(update={"training": recipe.training.model_copy(update={"epochs": 20})}), data, tmp_path
    )
    found = json.loads((tmp_path / "baselines.json").read_text())
    # The planted structure is an interaction: FM can learn it, LR cannot.
    assert found["fm"]["cvr"]["auc"] > found["lr"]["cvr"]["auc"] + 0.1


def test_predict_keeps_the_order(recipe: Recipe, data: Path, examples: Examples) -> None:
    model = new_model(recipe, "standard", data).eval()
    positions = np.random.default_rng(0).permutation(len(examples.arrays["time"]))[:1500]
    found = predict(model, examples, positions)
    few = predict(model, examples, positions[[1499, 3]])
    # Float32 sums in another order.
    np.testing.assert_allclose(found[[1499, 3]], few, atol=1e-5)


def test_training_positions_are_the_most_recent_of_the_training_part(examples: Examples, recipe: Recipe) -> None:
    settings = recipe.training
    everything = training_positions(examples, settings.model_copy(update={"max_examples": None}))
    assert everything.tolist() == examples.part("train").tolist()
    few = training_positions(examples, settings.model_copy(update={"max_examples": 10}))
    assert few.tolist() == examples.part("train")[-10:].tolist()
    many = training_positions(examples, settings.model_copy(update={"max_examples": 10**6}))
    assert many.tolist() == everything.tolist()


def test_standardise_uses_the_training_part_only(recipe: Recipe, data: Path, examples: Examples) -> None:
    embedding = new_model(recipe, "standard", data).get_submodule("embedding")
    standardise(embedding, examples)
    values = examples.arrays["user_dense"][: examples.split.train_end, 0].astype(np.float64)
    assert float(embedding.user_dense.mean_D) == pytest.approx(values.mean(), rel=1e-6)
    assert float(embedding.user_dense.std_D) == pytest.approx(values.std(), rel=1e-6)


def test_loss_worked() -> None:
    """p = 1/2 for all: log 2 for each of two labels, whatever the batch."""
    assert float(bce_loss(torch.zeros(3, 2), torch.ones(3, 2))) == pytest.approx(2 * np.log(2))


def test_optimisers_share_out_all_parameters_and_scale_with_the_batch(recipe: Recipe) -> None:
    model = nn.ModuleDict({"table": nn.Embedding(5, 4), "linear": nn.Linear(4, 1), "norm": nn.LayerNorm(4)})
    settings = recipe.training.model_copy(
        update={"batch_size": 256, "learning_rate_dense": 1e-3, "learning_rate_sparse": 1e-2, "weight_decay": 0.1}
    )
    dense, sparse = build_optimisers(model, settings)
    assert isinstance(dense, torch.optim.AdamW) and isinstance(sparse, torch.optim.Adagrad)
    groups = [(g["lr"], g["weight_decay"], len(g["params"])) for g in dense.param_groups]
    assert groups == [(2e-3, 0.1, 1), (2e-3, 0.0, 3)]
    assert [(g["lr"], [p.shape for p in g["params"]]) for g in sparse.param_groups] == [(2e-2, [(5, 4)])]


def test_learning_rates_warm_up_and_fall_to_nothing() -> None:
    factors = [rate_factor(step, 100) for step in range(100)]
    assert factors[:6] == pytest.approx([0.2, 0.4, 0.6, 0.8, 1.0, 1.0])
    assert np.allclose(np.diff(factors[5:]), -1 / 95)
    assert factors[-1] == pytest.approx(1 / 95)
    assert [rate_factor(0, 1), rate_factor(0, 2), rate_factor(1, 2)] == [1, 1, 1]
    assert [rate_factor(1, 1), rate_factor(2, 2)] == [0, 0]  # the scheduler looks behind the last step


def test_heads_by_scenario_take_the_rows_of_the_vocabulary(tmp_path: Path) -> None:
    """Place 3 is in the data but has no heads: it is trained and answered as the default, place 2."""
    document = planted_recipe().model_dump(mode="json")
    document["scenario"] = {"feature": "place", "default": 2}
    document["heads"] = {"by": "scenarios", "scenarios": [2, 1]}
    document["training"]["max_examples"] = 200
    recipe = parse_recipe(document)
    write(recipe, planted_log(), tmp_path)
    train(recipe, "standard", tmp_path, tmp_path / "standard")
    state = torch.load(tmp_path / "standard" / "checkpoint.pt", weights_only=True)
    # Rows 0 to 4 are PAD, OOV and places 1, 2, 3; heads are places 2, 1.
    assert state["selection.of_row_RC"].tolist() == [[1, 0], [1, 0], [0, 1], [1, 0], [1, 0]]
    rows = Examples.load(recipe, tmp_path / "examples").arrays["context_rows"]
    assert set(rows[:, 0].tolist()) == {2, 3}
