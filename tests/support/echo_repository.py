"""Model repositories of a Python model that answers what it is sent, for tests of the launcher alone."""

from pathlib import Path

CONFIG = """name: "{name}"
backend: "python"
max_batch_size: 8
input [{{name: "x" data_type: TYPE_INT64 dims: [-1]}}]
output [{{name: "y" data_type: TYPE_INT64 dims: [-1]}}]
instance_group [{{count: {instances} kind: KIND_CPU}}]
dynamic_batching {{}}
"""

MODEL = """import triton_python_backend_utils as pb


class TritonPythonModel:
    def initialize(self, args):
        {initialize}

    def execute(self, requests):
        arrays = [pb.get_input_tensor_by_name(r, "x").as_numpy() for r in requests]
        return [pb.InferenceResponse([pb.Tensor("y", array)]) for array in arrays]
"""


def write_echo(repository: Path, name: str = "echo", instances: int = 1, initialize: str = "pass") -> Path:
    """Add a model; `initialize` is the Python statement that it runs when loaded."""
    version = repository / name / "1"
    version.mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(CONFIG.format(name=name, instances=instances))
    (version / "model.py").write_text(MODEL.format(initialize=initialize))
    return repository
