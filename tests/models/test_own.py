"""Models of one's own: the arguments they get, worked; and the message for each thing that is wrong."""

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.support.recipes import tiny_recipe
from triton_ads.models import OwnModel, OwnModelError, build_model
from triton_ads.models.example import example_inputs
from triton_ads.recipe import Recipe, RecipeError, parse_recipe

ROWS = {"user": 20, "item": 30, "place": 4, "zip": 18}
HEAD = "import torch\nfrom torch import nn\n"
ECHO = f"""{HEAD}
class Echo(nn.Module):
    def __init__(self, rows, bias=0.0):
        super().__init__()
        self.rows, self.bias = rows, nn.Parameter(torch.tensor(bias))

    def forward(self, user_id, similar, activity, seen, bought, item_id, place=None, other=7):
        self.got = dict(user_id=user_id, similar=similar, activity=activity, seen=seen, bought=bought, item_id=item_id,
                        place=place, other=other)
        return user_id + self.bias
"""


def recipe(folder: Path, text: str = ECHO, name: str = "Echo", config: dict[str, Any] | None = None) -> Recipe:
    """The tiny recipe, its tier a class of `folder`/own.py."""
    folder.mkdir(exist_ok=True)
    (folder / "own.py").write_text(text)
    document = tiny_recipe().model_dump(mode="json", exclude_defaults=True)
    document["tiers"] = {"standard": {"model": f"own.py:{name}", "config": config or {}}}
    return parse_recipe(document, folder=folder)


def build(folder: Path, *args: Any) -> OwnModel:
    model = build_model(recipe(folder, *args), "standard", ROWS)
    assert isinstance(model, OwnModel)
    return model


def test_arguments_are_features_and_sequences_by_name(tmp_path: Path) -> None:
    """id [M], ids [M, length], dense [M], a sequence [M, T, fields]; in any order, only those that are wanted."""
    model = build(tmp_path)
    logits = model(
        user_ids=torch.tensor([[5, 6, 2], [7, 8, 3]]),  # user_id, zip_code, place
        item_ids=torch.tensor([[9, 10, 11], [12, 0, 0]]),  # item_id, similar x 2
        user_dense=torch.tensor([[0.5], [2.0]]),
        # seen: three events of item_id and zip_code; bought: two of item_id
        sequence_ids=torch.tensor([[2, 3, 4, 5, 6, 7, 8, 9], [2, 3, 0, 0, 0, 0, 8, 0]]),
    )
    got = model.model.got
    assert got["user_id"].tolist() == [5, 7]
    assert got["place"].tolist() == [2, 3]
    assert got["item_id"].tolist() == [9, 12]
    assert got["similar"].tolist() == [[10, 11], [0, 0]]
    assert got["activity"].tolist() == [0.5, 2.0]
    assert got["seen"].tolist() == [[[2, 3], [4, 5], [6, 7]], [[2, 3], [0, 0], [0, 0]]]
    assert got["bought"].tolist() == [[[8], [9]], [[8], [0]]]
    assert got["other"] == 7
    assert model.model.rows == ROWS
    assert logits.tolist() == [[5], [7]]  # [M] becomes [M, 1]


def test_ids_that_a_table_does_not_have_are_oov(tmp_path: Path) -> None:
    model = build(tmp_path)
    model(
        user_ids=torch.tensor([[20, -1, 4], [19, 17, 3]]),
        item_ids=torch.tensor([[2**40, 30, -(2**62)], [29, 29, 0]]),
        user_dense=torch.zeros(2, 1),
        sequence_ids=torch.tensor([[30, 18, -1, -1, 0, 0, 30, 2], [29, 17, 0, 0, 0, 0, 29, 0]]),
    )
    got = model.model.got
    assert got["user_id"].tolist() == [1, 19]
    assert got["place"].tolist() == [1, 3]
    assert got["item_id"].tolist() == [1, 29]
    assert got["similar"].tolist() == [[1, 1], [29, 0]]
    assert got["seen"].tolist() == [[[1, 1], [1, 1], [0, 0]], [[29, 17], [0, 0], [0, 0]]]
    assert got["bought"].tolist() == [[[1], [2]], [[29], [0]]]


def test_dense_features_are_standardised(tmp_path: Path) -> None:
    model = build(tmp_path)
    assert model.user_dense is not None
    model.user_dense.standardise(torch.tensor([3.0]), torch.tensor([2.0]))
    model(**{**example_inputs(recipe(tmp_path), ROWS, 2), "user_dense": torch.tensor([[3.0], [7.0]])})
    assert model.model.got["activity"].tolist() == [0.0, 2.0]


def test_a_model_may_ask_for_everything(tmp_path: Path) -> None:
    model = build(
        tmp_path,
        f"{HEAD}class Echo(nn.Module):\n    def __init__(self, rows): super().__init__()\n"
        "    def forward(self, **all): self.got = all; return all['activity']",
    )
    model(**example_inputs(recipe(tmp_path), ROWS, 2))
    assert list(model.model.got) == [
        "user_id", "zip_code", "activity", "place", "item_id", "similar", "seen", "bought"
    ]  # fmt: skip


def test_config_becomes_arguments_of_the_constructor(tmp_path: Path) -> None:
    assert build(tmp_path, ECHO, "Echo", {"bias": 2.5}).model.bias.item() == 2.5


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    assert build(tmp_path).model.bias.item() == 0
    assert build(tmp_path, ECHO.replace("bias=0.0", "bias=1.0")).model.bias.item() == 1
    assert not (tmp_path / "__pycache__").exists()


def test_dataclasses_and_type_hints_of_the_file_work(tmp_path: Path) -> None:
    text = f"""from __future__ import annotations
from dataclasses import dataclass
{HEAD}
@dataclass
class Sizes:
    width: int = 3

class Echo(nn.Module):
    def __init__(self, rows: dict[str, int], width: int = Sizes().width):
        super().__init__()
        self.table = nn.Embedding(rows["item"], width)

    def forward(self, item_id: torch.Tensor) -> torch.Tensor:
        return self.table(item_id).sum(-1)
"""
    assert build(tmp_path, text).model.table.weight.shape == (30, 3)


def test_the_trial_forward_leaves_the_model_as_it_is(tmp_path: Path) -> None:
    text = f"""{HEAD}
class Echo(nn.Module):
    def __init__(self, rows):
        super().__init__()
        self.norm = nn.BatchNorm1d(1)

    def forward(self, activity):
        return self.norm(activity.unsqueeze(-1))
"""
    model = build(tmp_path, text)
    assert model.training
    assert model.model.training
    assert model.model.norm.num_batches_tracked.item() == 0


def forward(arguments: str, body: str) -> str:
    """A file whose class Echo has this forward."""
    return f"""{HEAD}
class Echo(nn.Module):
    def __init__(self, rows, width, depth=1):
        super().__init__()
        if depth > 3:
            raise ValueError("too deep")

    def forward(self, {arguments}):
        {body}
"""


FINE = forward("activity", "return activity")
WRONG: list[tuple[str, str, str, dict[str, Any], str]] = [
    ("no class", FINE, "DIN", {"width": 1}, "own.py has no nn.Module 'DIN'; it has: Echo"),
    ("no module", f"{HEAD}class Echo: pass", "Echo", {}, "own.py has no nn.Module 'Echo'; it has: none"),
    (
        "no python",
        "class Echo(",
        "Echo",
        {},
        "own.py cannot be run: SyntaxError: '(' was never closed (own.py, line 1)",
    ),
    (
        "fails",
        f"{HEAD}\n1 / 0",
        "Echo",
        {},
        "own.py cannot be run: ZeroDivisionError: division by zero (own.py, line 4)",
    ),
    (
        "no package",
        "import nothing_of_the_kind",
        "Echo",
        {},
        "ModuleNotFoundError: No module named 'nothing_of_the_kind'",
    ),
    ("setting", FINE, "Echo", {"widht": 1}, "tiers.standard.config.widht: not known, found 1; allowed: width, depth"),
    ("missing", FINE, "Echo", {}, "tiers.standard.config: Echo needs width as well"),
    (
        "refused",
        FINE,
        "Echo",
        {"width": 1, "depth": 4},
        "Echo(rows, **{'width': 1, 'depth': 4}): ValueError: too deep (own.py, line 8)",
    ),
    (
        "unknown",
        forward("activity, age", "return activity"),
        "Echo",
        {"width": 1},
        "forward has the argument 'age'; allowed are features and sequences of the recipe, by name: user_id, zip_code, "
        "activity, place, item_id, similar, seen, bought",
    ),
    (
        "*args",
        forward("activity, *more", "return activity"),
        "Echo",
        {"width": 1},
        "forward has the argument '*more'; allowed",
    ),
    (
        "by place",
        forward("activity, /", "return activity"),
        "Echo",
        {"width": 1},
        "forward has the argument 'activity'; allowed",
    ),
    (
        "error",
        forward("activity", "return activity @ activity.T @ torch.ones(7)"),
        "Echo",
        {"width": 1},
        "own.py:Echo: forward failed: RuntimeError: ",
    ),
    (
        "shape",
        forward("activity", "return activity[:, None].repeat(1, 2)"),
        "Echo",
        {"width": 1},
        "forward returned float32 [3, 2], float32 [3, 1] or [3] needed for 3 rows",
    ),
    (
        "rows",
        forward("activity", "return activity.sum()[None]"),
        "Echo",
        {"width": 1},
        "forward returned float32 [1, 1], float32 [3, 1] or [3] needed",
    ),
    (
        "scalar",
        forward("activity", "return activity.sum()"),
        "Echo",
        {"width": 1},
        "forward returned float32 [], float32 [3, 1] or [3] needed",
    ),
    (
        "type",
        forward("user_id", "return user_id"),
        "Echo",
        {"width": 1},
        "forward returned int64 [3, 1], float32 [3, 1]",
    ),
    ("nothing", forward("activity", "pass"), "Echo", {"width": 1}, "forward returned None, float32 [3, 1]"),
    (
        "a dict",
        forward("activity", "return {'cvr': activity, 'dcvr': activity}"),
        "Echo",
        {"width": 1},
        "forward returned a dict of cvr, dcvr, float32 [3, 1]",
    ),
    (
        "a tuple",
        forward("activity", "return activity, None"),
        "Echo",
        {"width": 1},
        "forward returned a tuple of 2, float32 [3, 1]",
    ),
    (
        "nan",
        forward("activity", "return activity.abs().neg().log()"),
        "Echo",
        {"width": 1},
        "forward returned numbers that are not finite",
    ),
]


@pytest.mark.parametrize(("text", "name", "config", "message"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_is_wrong_is_named(tmp_path: Path, text: str, name: str, config: dict[str, Any], message: str) -> None:
    with pytest.raises((RecipeError, OwnModelError)) as caught:
        build(tmp_path, text, name, config)
    assert message in str(caught.value)
    assert str(caught.value).startswith("tiers.standard.")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    missing = recipe(tmp_path)
    (tmp_path / "own.py").unlink()
    with pytest.raises(RecipeError, match=r"^tiers\.standard\.model: .*own\.py cannot be read: No such file"):
        build_model(missing, "standard", ROWS)


def test_heads_by_scenario_are_for_built_in_models(tmp_path: Path) -> None:
    document = recipe(tmp_path).model_dump(mode="json", exclude_defaults=True)
    document["heads"] = {"by": "scenarios", "scenarios": [1, 2]}
    with pytest.raises(RecipeError, match=r"^heads\.by: scenarios is for built-in models; own\.py:Echo can read"):
        build_model(parse_recipe(document, folder=tmp_path), "standard", ROWS)


def test_a_feature_and_a_sequence_of_one_name(tmp_path: Path) -> None:
    document = recipe(tmp_path).model_dump(mode="json", exclude_defaults=True)
    document["sequences"][0]["name"] = "similar"
    with pytest.raises(RecipeError, match=r"^similar: a feature and a sequence have this name"):
        build_model(parse_recipe(document, folder=tmp_path), "standard", ROWS)
