"""Stage `repository`: the Triton model repository that serves the release."""

from collections.abc import Sequence
from pathlib import Path

from triton_ads.export.repository import write_repository
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe


def run(recipe: Recipe, layout: Layout) -> Sequence[Path]:
    write_repository(layout.release, layout.repository)
    return (layout.repository,)
