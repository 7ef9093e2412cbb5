"""The rendered repository: the one in git, and one for a release."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from tests.support.tiny_release import tiny_recipe, write_tiny_release
from tests.support.tiny_target import write_target_release
from triton_ads.export.configs import render_configs
from triton_ads.export.repository import (
    DEFAULT_RECIPE,
    Replaced,
    render_repository,
    render_tree,
    served_recipes,
    write_repository,
)
from triton_ads.manifest import Manifest, ManifestError
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.stages.repository import run as run_repository_stage
from triton_ads.recipe import load_recipe, parse_recipe
from triton_ads.recipe.names import LAYOUTS

ROOT = Path(__file__).parents[2]
ENSEMBLE = {"router", "user_encoder", "item_scorer"}
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
    limits = {"max_batch_requests": 17, "queue_delay_us": 250, "instances": 3}
    recipes = [tiny_recipe(layout=layout, **limits) for layout in LAYOUTS]
    configs = {name: config(text) for recipe in recipes for name, text in render_configs(recipe).items()}
    assert {c.max_batch_size for c in configs.values()} == {17}
    (single,) = render_configs(recipes[0]).values()
    (group,) = config(single).instance_group
    assert (group.count, config(single).backend) == (3, "python")
    for model in ENSEMBLE:
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
    document = tiny_recipe(layout="ensemble").model_dump(mode="json")
    document["sequences"] = []
    document["features"] = [f for f in document["features"] if f["kind"] != "dense"]
    encoder = config(render_configs(type(tiny_recipe()).model_validate(document))["user_encoder"])
    assert {t.name: list(t.dims) for t in encoder.input} == {
        "user_rows": [4],
        "user_floats": [-1],
        "sequence_rows": [-1],
        "route": [3],
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_repository_for_a_release(tmp_path, layout):
    release = write_tiny_release(tmp_path / "releases" / "tiny", tiny_recipe(layout=layout))
    write_repository(release, tmp_path / "served" / "repository")
    repository = tmp_path / "served" / "repository"
    assert texts(repository) == render_repository(tiny_recipe(layout=layout))
    for model in LAYOUTS[layout]:
        link = repository / model / "1" / "release"
        assert link.readlink() == Path("../../../../releases/tiny")
        assert Manifest.load(link).recipe == tiny_recipe(layout=layout)


def test_the_other_layout_takes_the_place_of_the_former(tmp_path):
    release, repository = write_target_release(tmp_path / "release"), tmp_path / "repository"
    generating = {"generator", "trie_verifier", "target", "ads"}
    for layout in ("single", "ensemble", "single"):
        write_repository(release, repository, layout)
        models = {*LAYOUTS[layout], *generating, "rank"}
        assert {path.name for path in repository.iterdir()} == models
        version = {path.name for path in (repository / "rank" / "1").iterdir()}
        assert version == ({"model.py", "release"} if layout == "single" else {".gitkeep"})
        assert served_recipes(repository) == {"rank": "tiny"}
        steps = config((repository / "ads" / "config.pbtxt").read_text()).ensemble_scheduling.step
        assert [step.model_name for step in steps] == ["generator", "trie_verifier", *LAYOUTS[layout]]
        assert steps[2].input_map["candidates"] == "target_ids"


def test_the_link_still_holds_when_both_are_moved(tmp_path):
    release = write_tiny_release(tmp_path / "var" / "release")
    write_repository(release, tmp_path / "var" / "repository")
    (tmp_path / "var").rename(tmp_path / "elsewhere")
    Manifest.load(tmp_path / "elsewhere" / "repository" / "rank" / "1" / "release")


def test_a_repository_behind_a_link(tmp_path):
    release = write_tiny_release(tmp_path / "release")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "deep" / "er")
    write_repository(release, tmp_path / "link" / "repository")
    Manifest.load(tmp_path / "deep" / "er" / "repository" / "rank" / "1" / "release")


def test_writing_again_replaces_the_release(tmp_path):
    first = write_tiny_release(tmp_path / "first")
    second = write_tiny_release(tmp_path / "second", tiny_recipe(tile=16))
    for release in (first, second):
        write_repository(release, tmp_path / "repository")
    found = Manifest.load(tmp_path / "repository" / "rank" / "1" / "release")
    assert found.recipe.serving.tile == 16


def release_of(folder, name, prefix=None, tile=8):
    """A release of a recipe of its own."""
    document = tiny_recipe(tile=tile, **({"prefix": prefix} if prefix else {})).model_dump(mode="json")
    return write_tiny_release(folder, parse_recipe({**document, "name": name}))


def test_a_prefix_is_part_of_every_name():
    mine, plain = tiny_recipe(prefix="mine", layout="ensemble"), tiny_recipe(layout="ensemble")
    configs = {name: config(text) for name, text in render_configs(mine).items()}
    assert set(configs) == {"mine_router", "mine_user_encoder", "mine_item_scorer", "mine_rank"}
    assert all(found.name == name for name, found in configs.items())
    steps = configs["mine_rank"].ensemble_scheduling.step
    assert [step.model_name for step in steps] == ["mine_router", "mine_user_encoder", "mine_item_scorer"]
    assert [t.name for t in configs["mine_rank"].input] == [t.name for t in config(render_configs(plain)["rank"]).input]
    assert render_repository(mine)["mine_router/1/model.py"] == render_repository(plain)["router/1/model.py"]
    single = render_repository(tiny_recipe(prefix="mine"))
    assert set(single) == {"mine_rank/config.pbtxt", "mine_rank/1/model.py"}
    assert single["mine_rank/1/model.py"] == render_repository(tiny_recipe())["rank/1/model.py"]


def test_recipes_with_prefixes_of_their_own_are_served_side_by_side(tmp_path):
    repository = tmp_path / "repository"
    assert write_repository(release_of(tmp_path / "a", "first"), repository) == []
    before = texts(repository)
    assert write_repository(release_of(tmp_path / "b", "second", "b", tile=16), repository) == []
    assert served_recipes(repository) == {"rank": "first", "b_rank": "second"}
    assert {name: text for name, text in texts(repository).items() if not name.startswith("b_")} == before
    tiles = [Manifest.load(repository / m / "1" / "release").recipe.serving.tile for m in ("rank", "b_rank")]
    assert tiles == [8, 16]


def test_a_recipe_with_the_same_prefix_takes_the_place_of_the_former_and_it_is_told(tmp_path):
    repository = tmp_path / "repository"
    for prefix, ensemble in ((None, "rank"), ("b", "b_rank")):
        write_repository(release_of(tmp_path / f"first {prefix}", "first", prefix), repository)
        second = release_of(tmp_path / f"second {prefix}", "second", prefix)
        assert Replaced("first", ensemble) in write_repository(second, repository)
        assert served_recipes(repository) == {ensemble: "second"}
        assert write_repository(second, repository) == []  # itself


def test_a_recipe_whose_prefix_changed_is_served_once(tmp_path):
    repository = tmp_path / "repository"
    write_repository(release_of(tmp_path / "other", "other", "o"), repository)
    write_repository(release_of(tmp_path / "before", "mine"), repository)
    found = write_repository(release_of(tmp_path / "after", "mine", "m"), repository)
    assert found == [Replaced("mine", "rank")]
    assert served_recipes(repository) == {"o_rank": "other", "m_rank": "mine"}
    assert not (repository / "rank").exists()


def test_models_that_generate_ads_come_and_go_with_their_recipe(tmp_path):
    repository = tmp_path / "repository"
    generating = {"generator", "trie_verifier", "target", "ads"}
    release = write_target_release(tmp_path / "target")
    write_repository(release, repository)
    found = {path.name for path in repository.iterdir()}
    assert found == {"rank"} | generating
    assert (repository / "generator" / "1" / "release").resolve() == release.resolve()
    assert not (repository / "target" / "1" / "release").exists()  # an ensemble reads nothing
    write_repository(release_of(tmp_path / "plain", "tiny"), repository)
    assert {path.name for path in repository.iterdir()} == {"rank"}
    write_repository(release, repository)
    write_repository(release_of(tmp_path / "moved", "tiny", "m"), repository)
    assert {path.name for path in repository.iterdir()} == {"m_rank"}


def test_a_release_that_is_gone_is_known_by_its_folder(tmp_path):
    repository = tmp_path / "repository"
    release = release_of(tmp_path / "first-0123456789ab", "first")
    write_repository(release, repository)
    shutil.rmtree(release)
    assert served_recipes(repository) == {"rank": "first"}


def test_the_stage_says_whom_it_replaced_and_owns_its_four_folders_only(tmp_path, capsys):
    layouts = {}
    for name, prefix in (("first", None), ("second", None), ("third", "t"), ("second", "s")):
        layout = layouts[name] = Layout(tmp_path, name)
        layout.release.parent.mkdir(parents=True, exist_ok=True)
        layout.release.unlink(missing_ok=True)
        release = release_of(tmp_path / "releases" / f"{name} {prefix}", name, prefix)
        layout.release.symlink_to(release)
        written = run_repository_stage(Manifest.load(release).recipe, layout)
        start = f"{prefix}_" if prefix else ""
        assert {p.name for p in written} == {f"{start}rank"}
    assert capsys.readouterr().out == (
        "repository: rank served the recipe first, which is served no longer; "
        "give one of the two a `serving.prefix` of its own to serve both\n"
        "repository: removed rank and its models: this recipe's, under the prefix it had before\n"
    )


def test_a_damaged_release_is_not_rendered(tmp_path):
    release = write_tiny_release(tmp_path / "release")
    (release / "store" / "titles.json").write_text("{}")
    with pytest.raises(ManifestError, match=r"titles.json: digest"):
        write_repository(release, tmp_path / "repository")
    assert not (tmp_path / "repository").exists()
