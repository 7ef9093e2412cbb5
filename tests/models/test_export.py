"""Both models leave PyTorch with a free batch: sizes never seen in export, and no operator that TensorRT refuses."""

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from tests.models.support import BY_SCENARIOS, ROWS, random_model, ranker_recipe
from triton_ads.models.example import example_inputs
from triton_ads.recipe import Recipe

CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("hyformer", {"layers": 2}, {}),
    ("wukong", {}, {"heads": BY_SCENARIOS}),
    ("wukong", {"sequence": "attention", "heads": 2}, {}),
    ("wukong", {"sequence": "attention", "y": "attentive"}, {}),
    ("hyformer", {}, {"sequences": []}),
]
UNSEEN = (1, 2, 7, 300)


def exported(recipe: Recipe, model: torch.nn.Module) -> torch.export.ExportedProgram:
    inputs = example_inputs(recipe, ROWS, rows=3)
    batch = torch.export.Dim("M", min=1)
    return torch.export.export(model, (), inputs, dynamic_shapes={name: {0: batch} for name in inputs})


@pytest.mark.parametrize(("name", "config", "changes"), CASES)
def test_onnx_answers_as_eager_for_batches_never_seen(
    name: str, config: dict[str, Any], changes: dict[str, Any], tmp_path: Path
) -> None:
    if changes.get("sequences") == []:
        config = {**config, "tokens": 5}
    recipe = ranker_recipe(name, config, **changes)
    model = random_model(recipe)
    program = torch.onnx.export(exported(recipe, model), dynamo=True, opset_version=20, verbose=False)
    assert program is not None
    program.save(tmp_path / "model.onnx")
    operators = {node.op_type for node in program.model.graph}
    assert not operators & {"Loop", "If", "Scan", "SequenceConstruct", "SequenceAt", "ConcatFromSequence"}

    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    for rows in UNSEEN:
        inputs = example_inputs(recipe, ROWS, rows, seed=rows)
        inputs["item_ids"][0, 0] = -1
        inputs["user_ids"][-1, 0] = 10**6
        (found,) = session.run(None, {i.name: inputs[i.name].numpy() for i in session.get_inputs()})
        probability = torch.sigmoid(model(**inputs)).detach().numpy()
        np.testing.assert_allclose(1 / (1 + np.exp(-found)), probability, atol=1e-5)  # the project's bound


@pytest.mark.parametrize("name", ["hyformer", "wukong"])
def test_a_side_is_one_gather_in_the_one_table(name: str) -> None:
    recipe = ranker_recipe(name)
    program = exported(recipe, random_model(recipe))
    gathers = [node for node in program.graph.nodes if node.target is torch.ops.aten.embedding.default]
    assert len(gathers) == 2
    assert {str(node.args[0]) for node in gathers} == {"p_embedding_table_weight"}
