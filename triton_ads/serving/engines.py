"""Engines: what runs one graph of a release on one kind of processor.

An engine reads its inputs from buffers that the caller owns and writes into a buffer that the caller owns.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray


class Engine(Protocol):
    """One graph, ready to run."""

    #: True: a run takes a whole bucket, its padding included, because shapes are fixed (CUDA graphs). False: it takes
    #: the filled part of a bucket, because padding costs time and a new shape costs nothing (ONNX Runtime on a CPU).
    padded: bool
    #: Candidates beyond which a run is cut in several, unless it is padded. Where what a run computes on the
    #: way no longer fits the caches it gets slower, while matrix products are at full speed from about 64 rows on.
    most_rows: int
    #: The inputs of the graph. A recipe without dense columns, say, has no `item_dense`.
    inputs: frozenset[str]

    def run(self, inputs: Mapping[str, NDArray[Any]], output: NDArray[np.float32]) -> None:
        """Run on C-contiguous `inputs`, which must have all names of `self.inputs`, and fill `output`."""


class OnnxEngine:
    """A graph on ONNX Runtime's CPU provider.

    The embedding table is an external data file: ONNX Runtime maps it into memory, and since a Gather reads it in
    place, all processes of a machine share its pages. Weights of matrix products are prepacked into private memory.

    Args:
        path: an .onnx file with one output.
        threads: intra-op threads; 1 runs in the calling thread.
    """

    padded = False
    #: Measured on the two MovieLens tiers and a core with 1 MiB of L2: 128 to 768 rows take the same time a row, 2,048
    #: take 5 to 15 % more, 8,192 take 15 to 30 % more.
    most_rows = 384

    def __init__(self, path: Path, threads: int = 1) -> None:
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # An idle engine must not burn a core that a neighbour could use.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self._session = ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.inputs = frozenset(i.name for i in self._session.get_inputs())
        (self._output,) = (o.name for o in self._session.get_outputs())

    def run(self, inputs: Mapping[str, NDArray[Any]], output: NDArray[np.float32]) -> None:
        # A binding of its own for each run: shapes change from run to run, and threads may share an engine.
        binding = self._session.io_binding()
        for name in self.inputs:
            binding.bind_cpu_input(name, inputs[name])
        binding.bind_output(self._output, "cpu", 0, output.dtype, output.shape, output.ctypes.data)
        self._session.run_with_iobinding(binding)
