"""Releases of one recipe that answer differently: the tiny one, and others with changed weights. Nothing is trained."""

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

from tests.support.tiny_release import BIAS_K, seal, write_tiny_release
from tests.support.tiny_target import write_target_release
from triton_ads.manifest import Manifest
from triton_ads.recipe import Recipe


def write_releases(releases: Path, recipe: Recipe, count: int) -> list[Path]:
    """`count` releases as the build leaves them, RELEASES/NAME-ID. Of the second and later, both parts differ: the user
    part of one and the item part of another give scores that neither has."""
    write = write_tiny_release if recipe.target is None else write_target_release
    first = _named(write(releases / "new", recipe))
    return [first, *(changed(first, factor) for factor in np.linspace(1.25, 2, count - 1))]


def changed(release: Path, factor: float) -> Path:
    """A copy of a release with vectors times `factor` and another bias."""

    def change(folder: Path) -> None:
        for tier in Manifest.load(release).tiers:
            parts = folder / "tiers" / tier
            table = np.fromfile(parts / "table.bin", np.float32)
            (table * np.float32(factor)).tofile(parts / "table.bin")
            item = onnx.load(parts / "item.onnx", load_external_data=False)
            for constant in item.graph.initializer:
                if constant.name != "table" and np.array_equal(numpy_helper.to_array(constant), BIAS_K):
                    constant.CopyFrom(numpy_helper.from_array(BIAS_K * np.float32(factor), constant.name))
            (parts / "item.onnx").write_bytes(item.SerializeToString())

    return derived(release, change)


def derived(release: Path, change: Callable[[Path], None]) -> Path:
    """A valid release, made of another by changing its files."""
    folder = release.with_name("new")
    shutil.copytree(release, folder)
    change(folder)
    manifest = Manifest.load(release)
    seal(folder, manifest.recipe, manifest.target)
    return _named(folder)


def _named(folder: Path) -> Path:
    manifest = Manifest.load(folder)
    return folder.rename(folder.with_name(f"{manifest.recipe.name}-{manifest.release}"))
