"""Exported graphs run in ONNX Runtime while building: for parity and for what a tier costs."""

from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray


def open_session(path: Path, threads: int = 1) -> onnxruntime.InferenceSession:
    """A session on the CPU that keeps to `threads` threads."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run_session(session: onnxruntime.InferenceSession, inputs: dict[str, NDArray[np.generic]]) -> NDArray[np.float32]:
    """The first output; inputs that the graph does not read are left out."""
    wanted = {argument.name for argument in session.get_inputs()}
    return session.run(None, {name: value for name, value in inputs.items() if name in wanted})[0]
