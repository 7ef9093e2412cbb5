"""What the last lines of a build say: what is served, and the command that comes next."""

from pathlib import Path

import pytest

from tests.support.next_release import write_releases
from tests.support.tiny_release import tiny_recipe
from triton_ads.commands.after_build import next_steps
from triton_ads.export.repository import write_repository
from triton_ads.export.served import ServedMark
from triton_ads.pipeline.layout import Layout
from triton_ads.recipe import Recipe


def built(var: Path, release: Path, recipe: str = "tiny") -> Layout:
    """As the build leaves it: a link names the release that was built last."""
    layout = Layout(var, recipe)
    layout.release.parent.mkdir(parents=True, exist_ok=True)
    layout.release.unlink(missing_ok=True)
    layout.release.symlink_to(release.resolve())
    return layout


@pytest.fixture(params=["single", "ensemble"])
def recipe(request: pytest.FixtureRequest) -> Recipe:
    return tiny_recipe(layout=request.param)


def named(recipe: Recipe, name: str, **serving: object) -> Recipe:
    parts = {"name": name, "serving": recipe.serving.model_copy(update=serving)}
    return recipe.model_copy(update=parts)


def test_what_a_build_says_next(tmp_path: Path, recipe: Recipe) -> None:
    first, second = write_releases(tmp_path / "releases", recipe, 2)
    layout = built(tmp_path, first)
    write_repository(first, layout.repository)
    serves = f"Repository: {layout.repository}, serves tiny as rank"
    serve = f"triton-ads serve --repository {layout.repository}"
    assert next_steps(layout, Path("a.yaml")) == [serves, f"Serve it:   {serve}"]

    mark = ServedMark(layout.repository)
    mark.hold()
    try:
        assert next_steps(layout, Path("a.yaml")) == [serves, "The server has this release: nothing new to publish"]
        built(tmp_path, second)
        publish = f"triton-ads publish --recipe 'an ad.yaml' --var {tmp_path}"
        assert next_steps(layout, Path("an ad.yaml")) == [
            serves,
            f"The server goes on with what it has. Put this release behind it: {publish}",
        ]
        (other,) = write_releases(tmp_path / "more", named(recipe, "films", prefix="films"), 1)
        assert next_steps(built(tmp_path, other, "films"), Path("films.yaml")) == [
            serves,
            f"films is not served yet: stop the server, run this build again, then {serve}",
        ]
        (moved,) = write_releases(tmp_path / "moved", named(recipe, "tiny", prefix="mine"), 1)
        assert "tiny is not served yet: stop the server" in next_steps(built(tmp_path, moved), Path("a.yaml"))[1]
        (wider,) = write_releases(tmp_path / "wider", named(recipe, "tiny", max_batch_requests=3), 1)
        said = next_steps(built(tmp_path, wider), Path("a.yaml"))[1]
        assert said.startswith("The server goes on with what it has. ") and "needs other tensors or limits" in said
        assert "stop the server" in said and "triton-ads publish" not in said
    finally:
        mark.release()
