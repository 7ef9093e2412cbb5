"""The matrix products of a graph, alone: the time below which no engine can bring it without a better product.

Every MatMul and Gemm of the graph is kept at its own shapes, fed with random activations and its own weights, and
nothing else is left.
"""

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper, shape_inference

_PRODUCTS = ("MatMul", "Gemm")


def products_only(
    model: onnx.ModelProto, sizes: dict[str, int]
) -> tuple[onnx.ModelProto, dict[str, NDArray[np.float32]]]:
    """The products of `model` and inputs for them.

    Args:
        model: an exported graph without external data.
        sizes: the size of every free axis, by name.

    Raises:
        ValueError: a product's shape cannot be inferred.
    """
    shapes = _shapes(model, sizes)
    weights = {tensor.name: tensor for tensor in model.graph.initializer}
    nodes, inputs, outputs, kept = [], {}, [], {}
    generator = np.random.default_rng(0)
    for node in model.graph.node:
        if node.op_type not in _PRODUCTS:
            continue
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        for position, name in enumerate(node.input):
            if name in weights:
                kept[name] = weights[name]
            else:
                fed = f"{node.output[0]}_in{position}"
                copy.input[position] = fed
                inputs[fed] = generator.standard_normal(_known(shapes, name), dtype=np.float32)
        nodes.append(copy)
        outputs.append(helper.make_tensor_value_info(node.output[0], TensorProto.FLOAT, _known(shapes, node.output[0])))
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in inputs.items()]
    graph = helper.make_graph(nodes, "products", infos, outputs, list(kept.values()))
    only = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    return only, inputs


def _known(shapes: dict[str, tuple[int, ...]], name: str) -> tuple[int, ...]:
    if name not in shapes:
        raise ValueError(f"the shape of {name} cannot be inferred")
    return shapes[name]


def _shapes(model: onnx.ModelProto, sizes: dict[str, int]) -> dict[str, tuple[int, ...]]:
    fixed = onnx.ModelProto()
    fixed.CopyFrom(model)
    del fixed.graph.value_info[:]
    for argument in fixed.graph.input:
        for dimension in argument.type.tensor_type.shape.dim:
            if dimension.dim_param:
                dimension.dim_value = sizes[dimension.dim_param]
    for output in fixed.graph.output:
        output.type.tensor_type.ClearField("shape")
    inferred = shape_inference.infer_shapes(fixed, data_prop=True)
    shapes = {tensor.name: tuple(numpy_helper.to_array(tensor).shape) for tensor in model.graph.initializer}
    for info in (*inferred.graph.value_info, *inferred.graph.input, *inferred.graph.output):
        dimensions = info.type.tensor_type.shape.dim
        if all(d.HasField("dim_value") for d in dimensions):
            shapes[info.name] = tuple(d.dim_value for d in dimensions)
    return shapes
