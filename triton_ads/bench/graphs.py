"""A row-wise model and its two parts, as graphs in ONNX Runtime."""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from triton_ads.export.onnx_graph import export_onnx
from triton_ads.split import Split, split
from triton_ads.split.positional import Positional
from triton_ads.split.values import Side

Arrays = dict[str, NDArray[np.generic]]


@dataclass(frozen=True)
class Graph:
    """A graph in a session of one thread, called with arrays by name; gives its first output."""

    model: onnx.ModelProto
    session: onnxruntime.InferenceSession
    inputs: tuple[str, ...]

    @classmethod
    def of(cls, model: onnx.ModelProto) -> "Graph":
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return cls(model, session, tuple(argument.name for argument in session.get_inputs()))

    def __call__(self, arrays: Mapping[str, NDArray[np.generic]]) -> NDArray[np.float32]:
        return self.all(arrays)[0]

    def all(self, arrays: Mapping[str, NDArray[np.generic]]) -> list[NDArray[np.float32]]:
        """Every output; arrays that the graph does not read are left out."""
        return self.session.run(None, {name: arrays[name] for name in self.inputs})


@dataclass(frozen=True)
class SplitGraphs:
    """The row-wise graph [M, ...] and the parts of `triton_ads.split`, each exported with its sizes free."""

    parts: Split
    row: Graph
    user: Graph
    item: Graph

    @classmethod
    def of(cls, model: nn.Module, rows: Mapping[str, Tensor], sides: Mapping[str, Side]) -> "SplitGraphs":
        """
        Args:
            rows: 12 rows or more of every input, in the order of the graph's inputs.
        """
        names = list(rows)
        with torch.no_grad(), quiet_export():
            parts = split(model, {name: tensor[:3] for name, tensor in rows.items()}, sides)
            users = [rows[name][:2] for name in parts.user_inputs]
            tiles = [rows[name][:12].unflatten(0, (3, 4)) for name in parts.item_inputs]
            row = export_onnx(
                Positional(model, names), [t[:3] for t in rows.values()], [{0: "M"}] * len(names), names, ["scores"]
            )
            user = export_onnx(parts.user, users, [{0: "B"}] * len(users), parts.user_inputs, ["state"])
            item = export_onnx(
                parts.item,
                [parts.user(*users), torch.tensor([0, 1, 1]), *tiles],
                [{0: "B"}, {0: "C"}, *[{0: "C", 1: "P"}] * len(tiles)],
                ["state", "user_of_tile", *parts.item_inputs],
                ["scores"],
            )
        return cls(parts, Graph.of(row), Graph.of(user), Graph.of(item))

    def run(self, users: Arrays, user_of_tile: NDArray[np.int64], tiles: Arrays) -> NDArray[np.float32]:
        """Scores [C, P, K] of `tiles` [C, P, ...]; both parts run."""
        return self.item({**tiles, "state": self.user(users), "user_of_tile": user_of_tile})


@contextmanager
def quiet_export() -> Iterator[None]:
    """Without what the exporters say of their own workings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in ("torch.onnx", "onnxscript"):
            logging.getLogger(name).setLevel(logging.ERROR)
        yield


@dataclass(frozen=True)
class Request:
    """One user with many candidates, in the form of either graph."""

    candidates: int
    user: Arrays  # [1, ...]
    flat: Arrays  # every input [candidates, ...], the user repeated
    tiled: Arrays  # items [C, P, ...], padded with zeros, and user_of_tile [C]

    @classmethod
    def of(cls, user: Mapping[str, Tensor], items: Mapping[str, Tensor], tile: int) -> "Request":
        """
        Args:
            user: one row of every input of the user side.
            items: a row a candidate of every input of the item side.
        """
        candidates = len(next(iter(items.values())))
        tiles = -(-candidates // tile)
        users = {name: tensor.numpy() for name, tensor in user.items()}
        flat: Arrays = {name: np.repeat(value, candidates, 0) for name, value in users.items()}
        tiled: Arrays = {"user_of_tile": np.zeros(tiles, np.int64)}
        for name, tensor in items.items():
            flat[name] = tensor.numpy()
            padded = np.zeros((tiles * tile, *tensor.shape[1:]), flat[name].dtype)
            padded[:candidates] = flat[name]
            tiled[name] = padded.reshape(tiles, tile, *tensor.shape[1:])
        return cls(candidates, users, flat, tiled)

    def unpad(self, scores_CPK: NDArray[np.float32]) -> NDArray[np.float32]:
        """Scores of the candidates alone, [candidates, K]."""
        return scores_CPK.reshape(-1, scores_CPK.shape[-1])[: self.candidates]
