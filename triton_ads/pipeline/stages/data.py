"""Stage `data`: a published data set becomes examples, vocabularies and the server's store."""

from collections.abc import Sequence
from pathlib import Path

from triton_ads.data import prepare
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe


def run(recipe: Recipe, layout: Layout) -> Sequence[Path]:
    prepare(recipe, layout.work("data"), layout.downloads)
    return ()
