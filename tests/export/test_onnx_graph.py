"""Exported graphs: free axes, forbidden operators, tables in a file of their own."""

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from triton_ads.export.onnx_graph import TABLE_FILE, GraphError, export_onnx, save_onnx
from triton_ads.export.onnx_session import open_session, run_session


class Lookup(nn.Module):
    """A large table, read twice; a small one that stays inside."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.large = nn.Embedding(600, 4)
        self.small = nn.Embedding(3, 4)

    def forward(self, ids_CP: Tensor, small_C: Tensor) -> Tensor:
        return self.large(ids_CP) + self.large(ids_CP + 1) + self.small(small_C).unsqueeze(1)


def exported(module: nn.Module) -> onnx.ModelProto:
    example = [torch.zeros(3, 4, dtype=torch.int64), torch.zeros(3, dtype=torch.int64)]
    return export_onnx(module.eval(), example, [{0: "C", 1: "P"}, {0: "C"}], ["ids", "small"], ["out"])


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (7, 1), (5, 64)])
def test_shapes_that_export_never_saw(tmp_path: Path, shape: tuple[int, int]) -> None:
    module = Lookup()
    save_onnx(exported(module), tmp_path / "graph.onnx")
    ids = np.random.default_rng(0).integers(0, 599, shape)
    small = np.random.default_rng(1).integers(0, 3, shape[0])
    got = run_session(open_session(tmp_path / "graph.onnx"), {"ids": ids, "small": small})
    with torch.no_grad():
        expected = module(torch.from_numpy(ids), torch.from_numpy(small)).numpy()
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


def test_free_axes_have_the_names_that_were_given() -> None:
    dimensions = [[d.dim_param for d in i.type.tensor_type.shape.dim] for i in exported(Lookup()).graph.input]
    assert dimensions == [["C", "P"], ["C"]]


def test_a_table_is_stored_once_for_all_graphs_that_read_it(tmp_path: Path) -> None:
    module = Lookup()
    for name in ("a.onnx", "b.onnx"):
        save_onnx(exported(module), tmp_path / name)
    assert (tmp_path / TABLE_FILE).read_bytes() == module.large.weight.detach().numpy().tobytes()
    other = Lookup()
    other.large.weight.data += 1
    save_onnx(exported(other), tmp_path / "c.onnx")
    assert (tmp_path / TABLE_FILE).stat().st_size == 12288 + 9600  # the second table starts on a page of its own
    (initializer,) = [
        t
        for t in onnx.load(tmp_path / "c.onnx", load_external_data=False).graph.initializer
        if t.data_location == onnx.TensorProto.EXTERNAL
    ]
    assert {e.key: e.value for e in initializer.external_data}["offset"] == "12288"
    ids = np.zeros((1, 1), np.int64)
    got = run_session(open_session(tmp_path / "c.onnx"), {"ids": ids, "small": np.zeros(1, np.int64)})
    expected = other(torch.zeros(1, 1, dtype=torch.int64), torch.zeros(1, dtype=torch.int64)).detach().numpy()
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-6)


def test_weights_of_products_stay_in_the_graph(tmp_path: Path) -> None:
    module = nn.Linear(100, 100).eval()
    model = export_onnx(module, [torch.zeros(2, 100)], [{0: "B"}], ["x"], ["y"])
    save_onnx(model, tmp_path / "graph.onnx")
    assert not (tmp_path / TABLE_FILE).exists()


def test_loops_are_refused() -> None:
    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bag = nn.EmbeddingBag(10, 4, mode="sum")

        def forward(self, ids: Tensor) -> Tensor:
            return self.bag(ids)

    with pytest.raises(GraphError, match=r"cannot be exported|the graph holds .*Loop"):
        export_onnx(Bag().eval(), [torch.zeros(3, 4, dtype=torch.int64)], [{0: "B"}], ["ids"], ["out"])


def test_a_size_baked_in_is_refused() -> None:
    class Baked(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.relu(x.reshape(3, 4))

    with pytest.raises(GraphError, match=r"out: cannot be exported with free axes \['B'\]"):
        export_onnx(Baked().eval(), [torch.zeros(3, 4)], [{0: "B"}], ["x"], ["out"])
