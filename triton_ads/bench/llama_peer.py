"""Decoding with llama.cpp, through the library that the package llama-cpp-python builds and ships.

Weights are quantised by llama.cpp itself from the checkpoint's GGUF file; one token is one `llama_decode`, as in its
own `llama-bench`, which the package does not ship. Threads wait in a pool that is paused between bursts.
"""

import ctypes
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triton_ads.bench.ggml_peer import Ggml

#: llama.cpp's numbers: enum llama_ftype (of the K types the medium mixes), enum ggml_type.
_FTYPE = {"F16": 1, "Q4_0": 2, "Q8_0": 7, "Q2_K": 10, "Q3_K": 12, "Q4_K": 15}
_GGML_Q4_0 = 2
#: Name -> (file type, whether embeddings and head are Q4_0 as well). By its own recipe they are Q8_0 in this model.
PEERS = {
    "llama.cpp F16": ("F16", False),
    "llama.cpp Q4_0": ("Q4_0", False),
    "llama.cpp Q4_0, head too": ("Q4_0", True),
}


class LlamaCppError(Exception):
    """llama.cpp refused what it was asked for."""


class LlamaCpp:
    """One model, one context."""

    def __init__(self, path: Path, threads: int, context: int) -> None:
        self._llama = llama = library()
        self._model = llama.llama_model_load_from_file(str(path).encode(), llama.llama_model_default_params())
        if not self._model:
            raise LlamaCppError(f"{path}: llama.cpp could not load it")
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_threads, params.n_threads_batch = context, threads, threads
        self._context = llama.llama_init_from_model(self._model, params)
        self.vocabulary = llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(self._model))
        self.nbytes = path.stat().st_size
        self._ggml = Ggml(_folder())
        self._pool = self._ggml.new_pool(threads)
        attach = llama._lib.llama_attach_threadpool
        attach.argtypes, attach.restype = [ctypes.c_void_p] * 3, None
        attach(self._context, self._pool, self._pool)
        self._token = (ctypes.c_int32 * 1)()

    def decode(self, tokens: list[int]) -> None:
        """Tokens one after the other from an empty context; logits of each are computed."""
        llama = self._llama
        self._ggml.ggml_threadpool_resume(self._pool)
        llama.llama_memory_clear(llama.llama_get_memory(self._context), True)
        for token in tokens:
            self._token[0] = token
            if llama.llama_decode(self._context, llama.llama_batch_get_one(self._token, 1)):
                raise LlamaCppError(f"llama_decode failed at token {token}")
            llama.llama_synchronize(self._context)
        self._ggml.ggml_threadpool_pause(self._pool)

    def logits(self) -> NDArray[np.float32]:
        """After the last token, float32 [V]."""
        found = self._llama.llama_get_logits_ith(self._context, -1)
        return np.ctypeslib.as_array(found, (self.vocabulary,)).copy()


def _folder() -> Path:
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None or spec.origin is None:
        raise LlamaCppError("llama-cpp-python is not installed")
    return Path(spec.origin).parent / "lib"


_log: Any = None


def library() -> Any:
    """The package's module of C functions, silenced. It is an optional package without types."""
    global _log
    llama = importlib.import_module("llama_cpp.llama_cpp")
    if _log is None:
        _log = llama.llama_log_callback(lambda level, text, data: None)
        llama.llama_log_set(_log, None)
        llama.llama_backend_init()
    return llama


def quantise(source: Path, target: Path, kind: str, head_too: bool) -> None:
    """Let llama.cpp quantise a GGUF file. What is quantised already is dequantised first."""
    llama = library()
    params = llama.llama_model_quantize_default_params()
    params.ftype, params.allow_requantize, params.pure = _FTYPE[kind], True, head_too
    if head_too:
        params.output_tensor_type = params.token_embedding_type = _GGML_Q4_0
    if llama.llama_model_quantize(str(source).encode(), str(target).encode(), ctypes.byref(params)):
        raise LlamaCppError(f"{source}: llama.cpp could not make {kind} of it")


def contenders(checkpoint: Path, folder: Path, threads: int, context: int) -> Iterator[tuple[str, LlamaCpp]]:
    """Every peer; none, and a line that says so, without the package or without a GGUF file."""
    if importlib.util.find_spec("llama_cpp") is None:
        print("llama.cpp is left out: llama-cpp-python is not installed", file=sys.stderr)
        return
    if not checkpoint.is_file():
        print("llama.cpp is left out: it reads GGUF files, the checkpoint is a folder", file=sys.stderr)
        return
    for name, (kind, head_too) in PEERS.items():
        path = folder / f"{name}.gguf"
        if not path.exists():
            quantise(checkpoint, path, kind, head_too)
        yield name, LlamaCpp(path, threads, context)
