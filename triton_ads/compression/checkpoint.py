"""A llama-family checkpoint as it was published: a Hugging Face folder of safetensors, or a GGUF file.

Tensors have Hugging Face's names, whatever the file. What a GGUF holds is often quantised already: its values are
dequantised, and these dequantised weights are then the baseline that everything is compared with.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.checkpoint_error import CheckpointError
from triton_ads.compression.checkpoint_safetensors import SafetensorsReader
from triton_ads.compression.llama_config import (
    EMBEDDINGS,
    HEAD,
    LlamaConfig,
    LlamaConfigError,
    config_of_hugging_face,
    frequencies_of_hugging_face,
)

__all__ = ["Checkpoint", "CheckpointError", "open_checkpoint"]

_INDEX: Final = "model.safetensors.index.json"


@dataclass(frozen=True)
class Checkpoint:
    """What a decoder is made of. `tensor("model.norm")` reads one weight as float32, by its name without `.weight`."""

    config: LlamaConfig
    frequencies: NDArray[np.float32]
    """Rotary frequencies, float32 [head_dim / 2], radians a position."""
    tensor: Callable[[str], NDArray[np.float32]]
    tokenizer: str
    """The text of a `tokenizer.json`."""

    def weight(self, name: str) -> NDArray[np.float32]:
        """The weight of a layer, float32; the embeddings for the head of a tied model.

        Raises CheckpointError where it is missing, has another shape or values that are not finite.
        """
        shapes = self.config.linear_layers()
        source = EMBEDDINGS if name == HEAD and self.config.tied else name
        shape: tuple[int, ...] = (self.config.hidden,)
        if name in shapes:
            shape = shapes[name]
        elif name == EMBEDDINGS:
            shape = (self.config.vocabulary, self.config.hidden)
        found = self.tensor(source)
        if found.shape != shape:
            raise CheckpointError(f"{source} is {found.shape}; the configuration asks for {shape}")
        if not np.isfinite(found).all():
            raise CheckpointError(f"{source} holds a value that is not finite")
        return found


def open_checkpoint(path: Path) -> Checkpoint:
    """A folder with config.json, safetensors and tokenizer.json, or a GGUF file.

    Raises CheckpointError for anything else, FileNotFoundError where nothing is there.
    """
    if path.is_dir():
        return _open_folder(path)
    if not path.exists():
        raise FileNotFoundError(f"{path}: neither a checkpoint folder nor a GGUF file is there")
    # The reader is a package of its own that serving does not need.
    from triton_ads.compression.checkpoint_gguf import open_gguf

    config, frequencies, tensor, tokenizer = open_gguf(path)
    return Checkpoint(config, frequencies, tensor, tokenizer)


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise CheckpointError(f"{path.parent}: {path.name} is missing") from error
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path}: no UTF-8 text: {error}") from error


def _open_folder(folder: Path) -> Checkpoint:
    try:
        found = json.loads(_read_text(folder / "config.json"))
    except ValueError as error:
        raise CheckpointError(f"{folder / 'config.json'}: {error}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{folder / 'config.json'} is a JSON {type(found).__name__}; an object is needed")
    try:
        config = config_of_hugging_face(found)
        frequencies = frequencies_of_hugging_face(found, config.head_dim)
    except LlamaConfigError as error:
        raise CheckpointError(f"{folder / 'config.json'}: {error}") from error
    readers = [SafetensorsReader(path) for path in _shards(folder)]
    holder = {name: reader for reader in readers for name in reader.names}

    def tensor(name: str) -> NDArray[np.float32]:
        if f"{name}.weight" not in holder:
            raise CheckpointError(f"{folder}: {name}.weight is missing")
        return holder[f"{name}.weight"].tensor(f"{name}.weight")

    return Checkpoint(config, frequencies, tensor, _read_text(folder / "tokenizer.json"))


def _shards(folder: Path) -> list[Path]:
    index = folder / _INDEX
    if not index.exists():
        return [folder / "model.safetensors"]
    try:
        files = set(json.loads(_read_text(index))["weight_map"].values())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{index}: no `weight_map` from tensors to files: {error}") from error
    for name in files:
        if not isinstance(name, str) or Path(name).name != name:
            raise CheckpointError(f"{index}: {name!r} is no name of a file in the folder")
    return [folder / name for name in sorted(files)]
