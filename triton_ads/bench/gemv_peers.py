"""The public runtimes that `triton-ads bench gemv` compares with: NumPy, torch and ONNX Runtime.

INT4 peers get the same weights: symmetric, groups of 128 columns, scale = largest magnitude / 7.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from numpy.typing import NDArray
from onnx import TensorProto, helper

from triton_ads.bench.gemv_contender import Case, Contender, copies_of, relative_error
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import round_to_nearest

GROUP = 128


def contenders(case: Case, weight_NK: NDArray[np.float32], x_MK: NDArray[np.float32]) -> Iterator[Contender]:
    torch.set_num_threads(case.threads)
    quantised = round_to_nearest(weight_NK, Pattern.DENSE, GROUP)
    codes_NK, scales_NG = quantised.codes_NK, quantised.scales_NB[:, :: GROUP // 32].astype(np.float32)
    wanted = x_MK.astype(np.float64) @ weight_NK.astype(np.float64).T
    wanted_int4 = x_MK.astype(np.float64) @ quantised.dequantised().astype(np.float64).T
    yield numpy_float32(case, weight_NK, x_MK, wanted)
    yield torch_bf16(case, weight_NK, x_MK, wanted)
    yield torch_int4(case, codes_NK, scales_NG, x_MK, wanted_int4)
    yield onnx_runtime(case, codes_NK, scales_NG, x_MK, wanted_int4)


def numpy_float32(case: Case, weight_NK: Any, x_MK: Any, wanted: Any) -> Contender:
    count, lots = copies_of(weight_NK.nbytes, case.batch)
    weights = np.repeat(weight_NK[None], count * lots, axis=0)
    x = x_MK[0] if case.batch == 1 else x_MK

    def burst(lot: int) -> Any:
        y = None
        for weight in weights[lot * count : (lot + 1) * count]:
            y = weight @ x if case.batch == 1 else x @ weight.T
        return y

    return Contender("NumPy FP32", weight_NK.nbytes, count, lots, burst, relative_error(burst(0), wanted))


def torch_bf16(case: Case, weight_NK: Any, x_MK: Any, wanted: Any) -> Contender:
    weight = torch.from_numpy(weight_NK).bfloat16()
    count, lots = copies_of(weight.nbytes, case.batch)
    weights = weight[None].repeat(count * lots, 1, 1)
    x = torch.from_numpy(x_MK).bfloat16()

    @torch.inference_mode()
    def burst(lot: int) -> Any:
        y = None
        for one in weights[lot * count : (lot + 1) * count]:
            y = torch.nn.functional.linear(x, one)
        return y

    return Contender("torch BF16", weight.nbytes, count, lots, burst, relative_error(burst(0).float().numpy(), wanted))


def torch_int4(case: Case, codes_NK: Any, scales_NG: Any, x_MK: Any, wanted: Any) -> Contender:
    packed = torch.ops.aten._convert_weight_to_int4pack_for_cpu(torch.from_numpy(codes_NK.astype(np.int32) + 8), 1)
    scales = torch.from_numpy(np.ascontiguousarray(scales_NG.T))
    scales_zeros = torch.stack([scales, torch.zeros_like(scales)], -1).bfloat16().contiguous()
    nbytes = packed.nbytes + scales_zeros.nbytes
    count, lots = copies_of(nbytes, case.batch)
    matrices = [(packed.clone(), scales_zeros.clone()) for _ in range(count * lots)]
    x = torch.from_numpy(x_MK).bfloat16()

    @torch.inference_mode()
    def burst(lot: int) -> Any:
        y = None
        for one, scale in matrices[lot * count : (lot + 1) * count]:
            y = torch.ops.aten._weight_int4pack_mm_for_cpu(x, one, GROUP, scale)
        return y

    return Contender("torch INT4", nbytes, count, lots, burst, relative_error(burst(0).float().numpy(), wanted))


def onnx_runtime(case: Case, codes_NK: Any, scales_NG: Any, x_MK: Any, wanted: Any) -> Contender:
    """MatMulNBits at accuracy level 4 (int8 activations): one session for each lot, its products side by side.

    Every copy of the matrix has its rows rolled by its number: ONNX Runtime keeps equal weights once, and then they
    would not be cold.
    """
    rows, columns = codes_NK.shape
    nibbles = (codes_NK + 8).astype(np.uint8).reshape(rows, columns // GROUP, GROUP)
    packed = nibbles[..., 0::2] | nibbles[..., 1::2] << 4
    nbytes = packed.nbytes + scales_NG.nbytes
    count, lots = copies_of(nbytes, case.batch)
    options = ort.SessionOptions()
    options.intra_op_num_threads = case.threads
    bindings = []
    for lot in range(lots):
        model = matmul_n_bits(packed, scales_NG, range(lot * count, (lot + 1) * count))
        session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(x_MK))
        for number in range(count):
            y = ort.OrtValue.ortvalue_from_numpy(np.zeros((case.batch, rows), np.float32))
            binding.bind_ortvalue_output(f"y{number}", y)
        bindings.append((session, binding))

    def burst(lot: int) -> None:
        session, binding = bindings[lot]
        session.run_with_iobinding(binding)

    burst(0)
    found = bindings[0][1].get_outputs()[0].numpy()
    return Contender("ONNX Runtime", nbytes, count, lots, burst, relative_error(found, wanted))


def matmul_n_bits(packed: Any, scales_NG: Any, copies: range) -> bytes:
    rows, groups, half = packed.shape
    columns = groups * half * 2
    nodes, weights = [], []
    for number, copy in enumerate(copies):
        codes, scales = np.roll(packed, copy, axis=0).tobytes(), np.roll(scales_NG, copy, axis=0).tobytes()
        weights += [
            helper.make_tensor(f"B{number}", TensorProto.UINT8, packed.shape, codes, raw=True),
            helper.make_tensor(f"s{number}", TensorProto.FLOAT, (scales_NG.size,), scales, raw=True),
        ]
        nodes.append(
            helper.make_node(
                "MatMulNBits", ["x", f"B{number}", f"s{number}"], [f"y{number}"], domain="com.microsoft",
                K=columns, N=rows, bits=4, block_size=half * 2, accuracy_level=4,
            )
        )  # fmt: skip
    graph = helper.make_graph(
        nodes,
        "products",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["M", columns])],
        [helper.make_tensor_value_info(f"y{number}", TensorProto.FLOAT, ["M", rows]) for number in range(len(copies))],
        weights,
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()
