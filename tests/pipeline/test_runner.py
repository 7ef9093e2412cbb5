"""Stages that copy small files: what runs, what is skipped, and the reason given."""

from collections.abc import Callable
from pathlib import Path

import pytest

from triton_ads.pipeline.inputs import path_digests
from triton_ads.pipeline.record import RECORD_FILE
from triton_ads.pipeline.runner import Selection, Stage, StageError, run_stages


class Chain:
    """first: VAR/source -> first/out, elsewhere/copy. second: first/out -> second/out, in capitals."""

    def __init__(self, var: Path) -> None:
        self.var = var
        self.settings = {"loudness": "1"}
        self.fail = False
        (var / "source").write_text("abc")

    def stages(self) -> list[Stage]:
        first, second = self.var / "first", self.var / "second"
        return [
            Stage("first", first, self.var, (), lambda: path_digests([self.var / "source"], self.var), self._first),
            Stage(
                "second part",
                second,
                self.var,
                (first,),
                lambda: {**self.settings, **path_digests([first], self.var, ignore=RECORD_FILE)},
                self._second,
            ),
        ]

    def _first(self) -> list[Path]:
        text = (self.var / "source").read_text()
        (self.var / "first" / "out").write_text(text.strip())
        elsewhere = self.var / "elsewhere"
        elsewhere.mkdir(exist_ok=True)
        (elsewhere / "copy").write_text(text.strip())
        return [elsewhere]

    def _second(self) -> list[Path]:
        (self.var / "second" / "out").write_text((self.var / "first" / "out").read_text().upper())
        if self.fail:
            raise RuntimeError("half way")
        (self.var / "second" / "end").write_text("")
        return []

    def run(self, **selection: object) -> tuple[list[str], list[str]]:
        """Names of the stages that ran, and all that was said."""
        said: list[str] = []
        done = run_stages(self.stages(), Selection(**selection), said.append)  # type: ignore[arg-type]
        return [stage.name for stage in done], said


@pytest.fixture
def chain(tmp_path: Path) -> Chain:
    return Chain(tmp_path)


def test_everything_runs_once_and_is_then_skipped(chain: Chain) -> None:
    ran, said = chain.run()
    assert ran == ["first", "second part"]
    assert said[0] == "[1/2] first: started (first time)"
    assert said[1].startswith("[1/2] first: done in ")
    assert (chain.var / "second" / "out").read_text() == "ABC"
    ran, said = chain.run()
    assert ran == []
    assert said == [
        "[1/2] first: skipped, nothing it depends on has changed",
        "[2/2] second part: skipped, nothing it depends on has changed",
    ]


def test_a_changed_input_runs_the_stage_and_those_that_read_what_it_wrote(chain: Chain) -> None:
    chain.run()
    (chain.var / "source").write_text("abcd")
    ran, said = chain.run()
    assert ran == ["first", "second part"]
    assert "[1/2] first: started (source changed)" in said
    assert "[2/2] second part: started (first/out changed)" in said
    assert (chain.var / "second" / "out").read_text() == "ABCD"


def test_a_stage_that_writes_the_same_again_runs_nothing_else(chain: Chain) -> None:
    chain.run()
    (chain.var / "source").write_text("abc \n")
    assert chain.run()[0] == ["first"]


def test_settings_of_one_stage_leave_the_other_alone(chain: Chain) -> None:
    chain.run()
    chain.settings = {"pitch": "2"}
    ran, said = chain.run()
    assert ran == ["second part"]
    assert "[2/2] second part: started (pitch is new, loudness is gone)" in said


def _remove(path: Path) -> None:
    path.unlink()


def _change(path: Path) -> None:
    path.write_text("something else")


@pytest.mark.parametrize(("damage", "word"), [(_remove, "gone"), (_change, "changed")])
@pytest.mark.parametrize("output", ["first/out", "elsewhere/copy"])
def test_a_damaged_output_is_made_again(chain: Chain, output: str, damage: Callable[[Path], None], word: str) -> None:
    chain.run()
    damage(chain.var / output)
    ran, said = chain.run()
    assert ran == ["first"]
    assert f"[1/2] first: started (output {output} {'is gone' if word == 'gone' else word})" in said
    assert (chain.var / output).read_text() == "abc"


def test_a_stage_that_fails_is_begun_anew(chain: Chain) -> None:
    chain.run()
    chain.fail = True
    chain.settings = {"loudness": "2"}
    with pytest.raises(RuntimeError, match="half way"):
        chain.run()
    assert not (chain.var / "second" / "end").exists()  # nothing of the earlier run is left to be mistaken for this
    chain.fail = False
    ran, said = chain.run()
    assert ran == ["second part"]
    assert "[2/2] second part: started (it was not finished)" in said


@pytest.mark.parametrize("text", ["", "{", "[]", '{"inputs": {}}'])
def test_a_broken_record_is_no_record(chain: Chain, text: str) -> None:
    chain.run()
    (chain.var / "first" / RECORD_FILE).write_text(text)
    assert chain.run()[0] == ["first"]


def test_force_runs_everything(chain: Chain) -> None:
    chain.run()
    ran, said = chain.run(force=True)
    assert ran == ["first", "second part"]
    assert said[0] == "[1/2] first: started (forced)"


def test_from_forces_a_stage_and_what_follows(chain: Chain) -> None:
    chain.run()
    assert chain.run(start="second")[0] == ["second part"]
    assert chain.run(start="first")[0] == ["first", "second part"]


def test_only_runs_one_stage_if_it_must(chain: Chain) -> None:
    chain.run()
    (chain.var / "source").write_text("new")
    assert chain.run(only="second")[0] == []
    assert chain.run(only="first")[0] == ["first"]
    assert chain.run(only="first", force=True)[0] == ["first"]


def test_a_stage_without_its_inputs_says_which_are_missing(chain: Chain) -> None:
    with pytest.raises(StageError, match=r"second part needs .*first, which has not been built"):
        chain.run(only="second")


@pytest.mark.parametrize("which", ["start", "only"])
def test_unknown_stages_are_refused_with_the_known_ones(chain: Chain, which: str) -> None:
    with pytest.raises(StageError, match="stage 'third' is not known; stages: first, second"):
        chain.run(**{which: "third"})
