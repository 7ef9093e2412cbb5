"""The rendered repository: the one in git, and one for a release."""

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from tests.support.tiny_release import tiny_recipe, write_tiny_release
from triton_ads.export.configs import render_configs
from triton_ads.export.repository import DEFAULT_RECIPE, render_repository, render_tree, write_repository
from triton_ads.manifest import Manifest, ManifestError
from triton_ads.recipe import load_recipe

ROOT = Path(__file__).parents[2]
MODELS = {"router", "user_encoder", "item_scorer"}
RENDER_AGAIN = "render it again with `python -m triton_ads.export.repository` and commit it"


def texts(folder):
    return {
        str(p.relative_to(folder)): p.read_text()
        for p in folder.rglob("*")
        if p.is_file() and not p.is_symlink() and "__pycache__" not in p.parts
    }


def config(text):
    return text_format.Parse(text, pb.ModelConfig())


@pytest.mark.parametrize("folder", ["model_repository", "ensembles"])
def test_the_tree_in_git_is_the_rendering_of_the_default_recipe(folder, tmp_path):
    render_tree(load_recipe(ROOT / DEFAULT_RECIPE), tmp_path)
    assert texts(ROOT / folder) == texts(tmp_path / folder), f"{folder}/ is not what the recipe says: {RENDER_AGAIN}"


def test_the_command_that_renders_the_tree(tmp_path):
    (tmp_path / DEFAULT_RECIPE).parent.mkdir(parents=True)
    (tmp_path / DEFAULT_RECIPE).write_text((ROOT / DEFAULT_RECIPE).read_text())
    subprocess.run([sys.executable, "-m", "triton_ads.export.repository"], cwd=tmp_path, check=True)
    assert texts(tmp_path / "model_repository") == texts(ROOT / "model_repository")


def test_rendering_is_deterministic():
    assert render_repository(tiny_recipe()) == render_repository(tiny_recipe())


def test_the_limits_of_the_recipe_are_in_the_configs():
    recipe = tiny_recipe(max_batch_requests=17, queue_delay_us=250, instances=3)
    configs = {name: config(text) for name, text in render_configs(recipe).items()}
    assert {c.max_batch_size for c in configs.values()} == {17}
    for model in MODELS:
        assert configs[model].dynamic_batching.max_queue_delay_microseconds == 250
        (group,) = configs[model].instance_group
        assert (group.count, group.kind) == (3, pb.ModelInstanceGroup.KIND_CPU)
    assert [step.model_name for step in configs["rank"].ensemble_scheduling.step] == [
        "router",
        "user_encoder",
        "item_scorer",
    ]


def test_a_kind_of_input_that_the_recipe_has_not_is_free_in_length():
    """Triton refuses a dimension of 0 in a config; the tensor that is sent is empty all the same."""
    document = tiny_recipe().model_dump(mode="json")
    document["sequences"] = []
    document["features"] = [f for f in document["features"] if f["kind"] != "dense"]
    encoder = config(render_configs(type(tiny_recipe()).model_validate(document))["user_encoder"])
    assert {t.name: list(t.dims) for t in encoder.input} == {
        "user_rows": [4],
        "user_floats": [-1],
        "sequence_rows": [-1],
        "route": [3],
    }


def test_a_repository_for_a_release(tmp_path):
    release = write_tiny_release(tmp_path / "releases" / "tiny")
    write_repository(release, tmp_path / "served" / "repository")
    repository = tmp_path / "served" / "repository"
    assert texts(repository) == render_repository(tiny_recipe())
    for model in MODELS:
        link = repository / model / "1" / "release"
        assert link.readlink() == Path("../../../../releases/tiny")
        assert Manifest.load(link).recipe == tiny_recipe()


def test_the_link_still_holds_when_both_are_moved(tmp_path):
    release = write_tiny_release(tmp_path / "var" / "release")
    write_repository(release, tmp_path / "var" / "repository")
    (tmp_path / "var").rename(tmp_path / "elsewhere")
    Manifest.load(tmp_path / "elsewhere" / "repository" / "router" / "1" / "release")


def test_a_repository_behind_a_link(tmp_path):
    release = write_tiny_release(tmp_path / "release")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "er")
    write_repository(release, tmp_path / "link" / "repository")
    Manifest.load(tmp_path / "deep" / "er" / "repository" / "router" / "1" / "release")


def test_writing_again_replaces_the_release(tmp_path):
    first = write_tiny_release(tmp_path / "first")
    second = write_tiny_release(tmp_path / "second", tiny_recipe(tile=16))
    for release in (first, second):
        write_repository(release, tmp_path / "repository")
    found = Manifest.load(tmp_path / "repository" / "item_scorer" / "1" / "release")
    assert found.recipe.serving.tile == 16


def test_a_damaged_release_is_not_rendered(tmp_path):
    release = write_tiny_release(tmp_path / "release")
    (release / "store" / "titles.json").write_text("{}")
    with pytest.raises(ManifestError, match=r"titles.json: digest"):
        write_repository(release, tmp_path / "repository")
    assert not (tmp_path / "repository").exists()
