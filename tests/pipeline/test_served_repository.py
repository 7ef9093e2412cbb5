"""A build leaves the repository of a running server alone: publishing is another command."""

from pathlib import Path

from triton_ads.export.served import ServedMark
from triton_ads.pipeline import build as module
from triton_ads.pipeline.build import build
from triton_ads.pipeline.layout import Layout
from triton_ads.pipeline.runner import Selection, Stage

RECIPE = Path(__file__).parents[1] / "recipes" / "tiny.yaml"


def test_the_repository_of_a_running_server_stays_as_it_is(tmp_path, monkeypatch, capsys):
    ran = []

    def plan(recipe, layout):
        def stage(name):
            return Stage(name, layout.work(name), layout.var, (), dict, lambda: ran.append(name) or ())

        return [stage("release"), stage("repository")]

    monkeypatch.setattr(module, "plan", plan)
    repository = Layout(tmp_path, "tiny").repository
    repository.mkdir(parents=True)
    mark = ServedMark(repository)
    mark.hold()
    build(RECIPE, tmp_path, Selection(force=True))
    assert ran == ["release"]
    assert f"{repository} is being served and stays as it is" in capsys.readouterr().out
    mark.release()
    build(RECIPE, tmp_path, Selection(force=True))
    assert ran == ["release", "release", "repository"]
