"""llama.cpp's matrix products, through the ggml libraries that the package llama-cpp-python builds and ships.

Called with ctypes, so nothing of llama.cpp is compiled here. Weights lie in its repacked buffers where it has them,
which is what llama.cpp itself does. Without the package there are no contenders, and the table says so by their
absence.
"""

import ctypes
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.bench.gemv_contender import Case, Contender, copies_of, relative_error

#: ggml's numbers: enum ggml_type, enum ggml_backend_dev_type.
TYPES = {"Q4_0": 2, "Q4_K": 12}
_F32, _DEVICE_CPU = 0, 0


class _InitParams(ctypes.Structure):
    _fields_ = (("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


class _ThreadpoolParams(ctypes.Structure):
    _fields_ = (
        ("cpumask", ctypes.c_bool * 512),
        ("n_threads", ctypes.c_int),
        ("prio", ctypes.c_int),
        ("poll", ctypes.c_uint32),
        ("strict_cpu", ctypes.c_bool),
        ("paused", ctypes.c_bool),
    )


_POINTER, _INT, _SIZE, _INT64 = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t, ctypes.c_int64
_LOG = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_SIGNATURES: dict[str, tuple[Any, list[Any]]] = {
    "ggml_backend_alloc_ctx_tensors": (_POINTER, [_POINTER, _POINTER]),
    "ggml_backend_alloc_ctx_tensors_from_buft": (_POINTER, [_POINTER, _POINTER]),
    "ggml_backend_buft_name": (ctypes.c_char_p, [_POINTER]),
    "ggml_backend_cpu_buffer_type": (_POINTER, []),
    "ggml_backend_cpu_init": (_POINTER, []),
    "ggml_backend_cpu_set_n_threads": (None, [_POINTER, _INT]),
    "ggml_backend_cpu_set_threadpool": (None, [_POINTER, _POINTER]),
    "ggml_backend_dev_backend_reg": (_POINTER, [_POINTER]),
    "ggml_backend_dev_by_type": (_POINTER, [_INT]),
    "ggml_backend_graph_compute": (_INT, [_POINTER, _POINTER]),
    "ggml_backend_reg_get_proc_address": (_POINTER, [_POINTER, ctypes.c_char_p]),
    "ggml_backend_tensor_get": (None, [_POINTER, _POINTER, _SIZE, _SIZE]),
    "ggml_backend_tensor_set": (None, [_POINTER, _POINTER, _SIZE, _SIZE]),
    "ggml_build_forward_expand": (None, [_POINTER, _POINTER]),
    "ggml_graph_overhead_custom": (_SIZE, [_SIZE, ctypes.c_bool]),
    "ggml_init": (_POINTER, [_InitParams]),
    "ggml_log_set": (None, [_LOG, _POINTER]),
    "ggml_mul_mat": (_POINTER, [_POINTER, _POINTER, _POINTER]),
    "ggml_nbytes": (_SIZE, [_POINTER]),
    "ggml_new_graph_custom": (_POINTER, [_POINTER, _SIZE, ctypes.c_bool]),
    "ggml_new_tensor_2d": (_POINTER, [_POINTER, _INT, _INT64, _INT64]),
    "ggml_quantize_chunk": (_SIZE, [_INT, _POINTER, _POINTER, _INT64, _INT64, _INT64, _POINTER]),
    "ggml_tensor_overhead": (_SIZE, []),
    "ggml_threadpool_new": (_POINTER, [ctypes.POINTER(_ThreadpoolParams)]),
    "ggml_threadpool_params_init": (None, [ctypes.POINTER(_ThreadpoolParams), _INT]),
    "ggml_threadpool_pause": (None, [_POINTER]),
    "ggml_threadpool_resume": (None, [_POINTER]),
}


class Ggml:
    """The functions of the shared libraries, by name, with their signatures."""

    def __init__(self, folder: Path) -> None:
        names = ("libggml-base.so", "libggml-cpu.so", "libggml.so")
        self._libraries = [ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL) for name in names]
        # It tells of every matrix that it repacks.
        self._silent = _LOG(lambda level, text, data: None)
        self.ggml_log_set(self._silent, None)

    def __getattr__(self, name: str) -> Any:
        result, arguments = _SIGNATURES[name]
        for library in self._libraries:
            if hasattr(library, name):
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
                setattr(self, name, function)
                return function
        raise AttributeError(f"this llama.cpp has no {name}")

    def context(self, size: int) -> Any:
        return self.ggml_init(_InitParams(size, None, True))

    def new_pool(self, threads: int) -> Any:
        """A pool of threads that may be paused: one that waits by spinning would take other contenders' cores."""
        params = _ThreadpoolParams()
        self.ggml_threadpool_params_init(params, threads)
        return self.ggml_threadpool_new(params)

    def weight_buffer_type(self) -> Any:
        """The buffers in which weights are repacked for the CPU's instructions, else the plain ones."""
        device = self.ggml_backend_dev_by_type(_DEVICE_CPU)
        registry = self.ggml_backend_dev_backend_reg(device)
        address = self.ggml_backend_reg_get_proc_address(registry, b"ggml_backend_dev_get_extra_bufts")
        if address:
            extra = ctypes.CFUNCTYPE(ctypes.POINTER(_POINTER), _POINTER)(address)(device)
            number = 0
            while extra and extra[number]:
                if b"REPACK" in self.ggml_backend_buft_name(extra[number]):
                    return extra[number]
                number += 1
        return self.ggml_backend_cpu_buffer_type()


def contenders(case: Case, weight_NK: NDArray[np.float32], x_MK: NDArray[np.float32]) -> Iterator[Contender]:
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        print("llama.cpp is left out: llama-cpp-python is not installed", file=sys.stderr)
        return
    ggml = Ggml(Path(spec.origin).parent / "lib")
    for name, kind in TYPES.items():
        yield contender(ggml, f"llama.cpp {name}", kind, case, weight_NK, x_MK)


def contender(ggml: Ggml, name: str, kind: int, case: Case, weight_NK: Any, x_MK: Any) -> Contender:
    backend = ggml.ggml_backend_cpu_init()
    ggml.ggml_backend_cpu_set_n_threads(backend, case.threads)
    pool = ggml.new_pool(case.threads)
    ggml.ggml_backend_cpu_set_threadpool(backend, pool)

    shape_context = ggml.context(1 << 20)
    nbytes = ggml.ggml_nbytes(ggml.ggml_new_tensor_2d(shape_context, kind, case.columns, case.rows))
    count, lots = copies_of(nbytes, case.batch)
    overhead = ggml.ggml_tensor_overhead()
    weights_context = ggml.context(overhead * (count * lots + 8))
    weights = [ggml.ggml_new_tensor_2d(weights_context, kind, case.columns, case.rows) for _ in range(count * lots)]
    buffer_type = ggml.weight_buffer_type()
    if not ggml.ggml_backend_alloc_ctx_tensors_from_buft(weights_context, buffer_type):
        raise MemoryError(f"ggml could not allocate {count * lots} matrices of {nbytes} bytes")
    quantised = np.zeros(nbytes, np.uint8)
    ggml.ggml_quantize_chunk(kind, weight_NK.ctypes.data, quantised.ctypes.data, 0, case.rows, case.columns, None)
    for weight in weights:
        ggml.ggml_backend_tensor_set(weight, quantised.ctypes.data, 0, nbytes)

    nodes = 2 * count + 64
    graphs_size = lots * ggml.ggml_graph_overhead_custom(nodes, False)
    context = ggml.context(graphs_size + overhead * (2 * count * lots + 64))
    x = ggml.ggml_new_tensor_2d(context, _F32, case.columns, case.batch)
    graphs, results = [], []
    for lot in range(lots):
        graph = ggml.ggml_new_graph_custom(context, nodes, False)
        for weight in weights[lot * count : (lot + 1) * count]:
            results.append(ggml.ggml_mul_mat(context, weight, x))
            ggml.ggml_build_forward_expand(graph, results[-1])
        graphs.append(graph)
    if not ggml.ggml_backend_alloc_ctx_tensors(context, backend):
        raise MemoryError("ggml could not allocate the inputs and outputs")
    ggml.ggml_backend_tensor_set(x, x_MK.ctypes.data, 0, x_MK.nbytes)

    def burst(lot: int) -> None:
        ggml.ggml_threadpool_resume(pool)
        ggml.ggml_backend_graph_compute(backend, graphs[lot])
        ggml.ggml_threadpool_pause(pool)

    burst(0)
    y_MN = np.zeros((case.batch, case.rows), np.float32)
    ggml.ggml_backend_tensor_get(results[0], y_MN.ctypes.data, 0, y_MN.nbytes)
    wanted = x_MK.astype(np.float64) @ weight_NK.astype(np.float64).T
    return Contender(name, nbytes, count, lots, burst, relative_error(y_MN, wanted))
