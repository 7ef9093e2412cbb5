"""A decoder as it is served: one folder, checked when it is opened.

    model.safetensors   a packed file (docs/packed_format.md): the packed matrix of every linear layer under Hugging
                        Face's names and `lm_head`; `model.embed_tokens` as BF16 bits, norms and rotary frequencies as
                        float32; metadata with the configuration and the digest of the tokenizer
    tokenizer.json      the tokenizer

Matrices stay in the file's memory map: opening a model reads it once for its digest and copies nothing.

Legend: D hidden width, V vocabulary.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import xxhash
from numpy.typing import NDArray

from triton_ads.compression.llama_config import EMBEDDINGS, LlamaConfig, LlamaConfigError
from triton_ads.compression.packed_file import PackedFile, read_packed_file, write_packed_file
from triton_ads.compression.packed_matrix import PackedMatrix

MODEL_FILE: Final = "model.safetensors"
TOKENIZER_FILE: Final = "tokenizer.json"
FREQUENCIES: Final = "rotary_frequencies"
VERSION: Final = "1"


class PackedModelError(ValueError):
    """Parts that make no decoder; the message names the part, what was found and what is allowed."""


@dataclass(frozen=True)
class PackedModel:
    """A decoder's parts.

    matrices:      a packed matrix for each of `config.linear_layers()`, whatever its pattern and values.
    embeddings_VD: uint16, BF16 bits.
    norms:         float32 [D] for each of `config.norms()`.
    frequencies:   float32 [head_dim / 2], radians a position.
    tokenizer:     the text of a `tokenizer.json`.
    """

    config: LlamaConfig
    matrices: Mapping[str, PackedMatrix]
    embeddings_VD: NDArray[np.uint16]
    norms: Mapping[str, NDArray[np.float32]]
    frequencies: NDArray[np.float32]
    tokenizer: str

    def __post_init__(self) -> None:
        shapes = self.config.linear_layers()
        _check_names("matrices", self.matrices, list(shapes))
        for name, shape in shapes.items():
            found = self.matrices[name].rows, self.matrices[name].columns
            if found != shape:
                raise PackedModelError(f"{name} is {found}; the configuration asks for {shape}")
        _check_names("norms", self.norms, self.config.norms())
        for name, norm in self.norms.items():
            _check_array(name, norm, np.float32, (self.config.hidden,))
        shape = self.config.vocabulary, self.config.hidden
        _check_array(EMBEDDINGS, self.embeddings_VD, np.uint16, shape)
        _check_array(FREQUENCIES, self.frequencies, np.float32, (self.config.head_dim // 2,))

    @property
    def weight_bytes(self) -> int:
        """Bytes that one forward pass of one token reads: all packed matrices."""
        return sum(matrix.nbytes for matrix in self.matrices.values())


def _check_names(what: str, found: Mapping[str, Any], wanted: list[str]) -> None:
    missing, strange = sorted(set(wanted) - set(found)), sorted(set(found) - set(wanted))
    if missing or strange:
        raise PackedModelError(f"of the {what}, {missing[:3]} are missing and {strange[:3]} are unknown")


def _check_array(name: str, found: NDArray[Any], dtype: type, shape: tuple[int, ...]) -> None:
    if found.dtype != dtype or found.shape != shape:
        raise PackedModelError(f"{name} is {found.dtype} {found.shape}; {np.dtype(dtype)} {shape} is needed")


def write_packed_model(folder: Path, model: PackedModel) -> None:
    """Write a folder, made where it is missing. The tokenizer goes first: a model file without its own is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TOKENIZER_FILE).write_text(model.tokenizer, encoding="utf-8")
    tensors: dict[str, NDArray[Any]] = {EMBEDDINGS: model.embeddings_VD, FREQUENCIES: model.frequencies, **model.norms}
    metadata = {
        "model": model.config.to_json(),
        "model_version": VERSION,
        "tokenizer_digest": _digest(model.tokenizer.encode()),
    }
    write_packed_file(folder / MODEL_FILE, PackedFile(model.matrices, tensors, metadata))


def read_packed_model(folder: Path, verify: bool = True) -> PackedModel:
    """Open a folder. `verify` compares digests; without it only what a decoder relies on is checked.

    Raises PackedModelError and PackedFileError for anything but a whole, unchanged model of this version, OSError
    where files are missing.
    """
    content = read_packed_file(folder / MODEL_FILE, verify)
    raw = (folder / TOKENIZER_FILE).read_bytes()
    try:
        version = content.metadata.get("model_version")
        if version != VERSION:
            raise PackedModelError(f"model_version is {version!r}; {VERSION!r} is what this code reads")
        expected = content.metadata.get("tokenizer_digest")
        if verify and _digest(raw) != expected:
            raise PackedModelError(f"{TOKENIZER_FILE} has digest {_digest(raw)}; the model was packed with {expected}")
        config = LlamaConfig.from_json(content.metadata.get("model", ""))
        norms = dict(content.tensors)
        for name in (EMBEDDINGS, FREQUENCIES):
            if name not in norms:
                raise PackedModelError(f"{name} is missing")
        embeddings_VD, frequencies = norms.pop(EMBEDDINGS), norms.pop(FREQUENCIES)
        return PackedModel(config, content.matrices, embeddings_VD, norms, frequencies, _text(raw))
    except (PackedModelError, LlamaConfigError) as error:
        raise PackedModelError(f"{folder}: {error}") from error


def _digest(raw: bytes) -> str:
    return xxhash.xxh3_128_hexdigest(raw)


def _text(raw: bytes) -> str:
    try:
        text = raw.decode()
        json.loads(text)
    except ValueError as error:
        raise PackedModelError(f"{TOKENIZER_FILE} is no JSON: {error}") from error
    return text
