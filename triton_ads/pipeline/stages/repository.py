"""Stage `repository`: the models that serve the release, beside those of other recipes."""

from collections.abc import Sequence
from pathlib import Path

from triton_ads.export.repository import folders, write_repository
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe


def run(recipe: Recipe, layout: Layout) -> Sequence[Path]:
    for replaced in write_repository(layout.release, layout.repository):
        if replaced.recipe == recipe.name:
            said = f"removed {replaced.ensemble} and its models: this recipe's, under the prefix it had before"
        else:
            said = (
                f"{replaced.ensemble} served the recipe {replaced.recipe}, which is served no longer; "
                "give one of the two a `serving.prefix` of its own to serve both"
            )
        print(f"repository: {said}", flush=True)
    return folders(recipe, layout.repository)
