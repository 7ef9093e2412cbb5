"""What `triton-ads bench quality` compares: recipes of ours, and llama.cpp's quantisations of the same model."""

import importlib.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gguf import GGUFReader

from triton_ads.bench import llama_peer
from triton_ads.compression.patterns import Values
from triton_ads.compression.recipe import CompressionRecipe, RecoveryPart, parse_compression_recipe

BASELINE: Final = "BF16"
#: llama.cpp's file types, from the largest to the smallest.
PEERS: Final = ("Q8_0", "Q4_K", "Q4_0", "Q3_K", "Q2_K")
#: Bits a weight of "mix + INT4": half way between 2:4 and 1:4 in the layers, with a dense head.
MIX_BITS: Final = 2.85
_INT4: Final = {"values": "int4", "groups": {"kind": "adaptive", "size": 64}, "rounding": "compensated"}
_BF16: Final = {"values": "bf16", "rounding": "compensated"}


def _recipe(**document: Any) -> CompressionRecipe:
    return parse_compression_recipe(document)


def ablation() -> dict[str, CompressionRecipe]:
    """The rows of the seed's table. The baseline is the checkpoint's own weights and no recipe of ours."""
    return {
        "INT4": _recipe(patterns=["dense"], **_INT4),
        "2:4": _recipe(patterns=["2:4"], **_BF16),
        "1:4": _recipe(patterns=["1:4"], **_BF16),
        "2:4 + INT4": _recipe(patterns=["2:4"], **_INT4),
        "1:4 + INT4": _recipe(patterns=["1:4"], **_INT4),
        "mix + INT4": _recipe(patterns=["2:4", "1:4"], budget={"bits_per_weight": MIX_BITS}, **_INT4),
    }


def table(recovery_steps: int) -> dict[str, CompressionRecipe]:
    """The ablation, each INT4 row followed by the same with recovery training, if it has any steps."""
    rows = {}
    for name, recipe in ablation().items():
        rows[name] = recipe
        if recovery_steps and recipe.values is Values.INT4:
            rows[f"{name}, recovered"] = recipe.model_copy(update={"recovery": RecoveryPart(steps=recovery_steps)})
    return rows


def criteria() -> dict[tuple[str, str], CompressionRecipe]:
    """(pattern, criterion) -> pruning alone: nothing rounded to INT4, nothing made up for."""
    return {
        (pattern, criterion): _recipe(patterns=[pattern], values="bf16", rounding="nearest", criterion=criterion)
        for pattern in ("2:4", "1:4")
        for criterion in ("magnitude", "wanda", "gradient")
    }


def groups() -> dict[tuple[str, str], CompressionRecipe]:
    """(rounding, kind of groups) -> dense INT4 in the bytes of uniform groups of 64."""
    return {
        (rounding, kind): _recipe(patterns=["dense"], rounding=rounding, groups={"kind": kind, "size": 64})
        for rounding in ("nearest", "fitted", "compensated")
        for kind in ("uniform", "adaptive")
    }


@dataclass(frozen=True)
class Peer:
    """A GGUF file that llama.cpp made: `nbytes` of its tensors, all of which it reads for every token, `types` of its
    matrices by how many there are."""

    path: Path
    nbytes: int
    types: dict[str, int]


def peers(checkpoint: Path, folder: Path) -> Iterator[tuple[str, Peer]]:
    """Quantised by llama.cpp from the checkpoint; none, and a line that says so, where that cannot be."""
    if importlib.util.find_spec("llama_cpp") is None or not checkpoint.is_file():
        print("llama.cpp is left out: it needs llama-cpp-python and a checkpoint in GGUF", file=sys.stderr)
        return
    for kind in PEERS:
        path = folder / f"{kind}.gguf"
        if not path.exists():
            llama_peer.quantise(checkpoint, path, kind, head_too=False)
        tensors = GGUFReader(path).tensors
        types: dict[str, int] = {}
        for tensor in tensors:
            if len(tensor.shape) > 1:
                types[tensor.tensor_type.name] = types.get(tensor.tensor_type.name, 0) + 1
        yield f"llama.cpp {kind}", Peer(path, sum(int(tensor.n_bytes) for tensor in tensors), types)
