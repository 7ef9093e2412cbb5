"""What is served after a build, and what to do next."""

import shlex
from pathlib import Path

from triton_ads.commands.build import DEFAULT_VAR
from triton_ads.commands.rank import current_release
from triton_ads.export.repository import served_recipes
from triton_ads.export.served import is_served
from triton_ads.manifest import Manifest
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe.names import RANK, prefixed
from triton_ads.server.release_checks import PublishError, check_same_models


def next_steps(layout: Layout, recipe_file: Path) -> list[str]:
    """Lines: a build leaves the repository of a running server as it is, so the new release may not be in it."""
    repository = layout.repository
    recipe = Manifest.load(layout.release, verify_files=False).recipe
    rank, served = prefixed(RANK, recipe.serving.prefix), served_recipes(repository)
    shown = ", ".join(f"{name} as {model}" for model, name in served.items()) or "nothing"
    serve = f"triton-ads serve --repository {repository}"
    lines = [f"Repository: {repository}, serves {shown}"]
    if served.get(rank) != recipe.name:
        first = "stop the server, run" if is_served(repository) else "run"
        return [*lines, f"{recipe.name} is not served yet: {first} this build again, then {serve}"]
    if not is_served(repository):
        return [*lines, f"Serve it:   {serve}"]
    if current_release(repository, rank) == layout.release.resolve():
        return [*lines, "The server has this release: nothing new to publish"]
    try:
        check_same_models(recipe, repository)
    except PublishError as error:
        return [*lines, f"The server goes on with what it has. {error}"]
    command = ["triton-ads", "publish", "--recipe", str(recipe_file)]
    command += [] if layout.var == DEFAULT_VAR else ["--var", str(layout.var)]
    return [*lines, f"The server goes on with what it has. Put this release behind it: {shlex.join(command)}"]
