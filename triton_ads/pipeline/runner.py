"""Runs stages in order: skips what would change nothing, redoes the rest, says what it does and why."""

import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from triton_ads.pipeline.inputs import Digests, path_digests
from triton_ads.pipeline.record import RECORD_FILE, Record, reason_to_run


class StageError(ValueError):
    """A stage that cannot be run as asked; the message says what is missing or which stages there are."""


@dataclass(frozen=True)
class Stage:
    """One step of the build.

    `run` writes into `folder`, which is empty when it starts, and returns what it wrote elsewhere. `inputs` gives
    the digest of everything that decides what `run` writes; it is asked right before the stage, when the stages
    before it are done.
    """

    name: str  # the stage and, where there is one for each tier, the tier: "train high"
    folder: Path
    base: Path  # what paths are given relative to, in records and reasons
    needs: tuple[Path, ...]  # folders that earlier stages fill
    inputs: Callable[[], Digests]
    run: Callable[[], Sequence[Path]]

    @property
    def kind(self) -> str:
        """What `--from` and `--only` call it."""
        return self.name.split()[0]


@dataclass(frozen=True)
class Selection:
    """Which stages to run.

    Attributes:
        force: run even where nothing has changed.
        start: the stage from which on everything is run, changed or not.
        only: the stage to run; the others are left as they are.
    """

    force: bool = False
    start: str | None = None
    only: str | None = None


def run_stages(stages: Sequence[Stage], selection: Selection, say: Callable[[str], None] = print) -> list[Stage]:
    """Run what must be run; `say` gets one line for each stage when it starts and one when it ends.

    Returns:
        The stages that were run.

    Raises:
        StageError: unknown stage, or one whose inputs have not been built.
    """
    kinds = list(dict.fromkeys(stage.kind for stage in stages))
    for asked in (selection.start, selection.only):
        if asked is not None and asked not in kinds:
            raise StageError(f"stage {asked!r} is not known; stages: {', '.join(kinds)}")
    first_forced = kinds.index(selection.start) if selection.start else len(kinds)
    chosen = [stage for stage in stages if selection.only in (None, stage.kind)]
    done = []
    for number, stage in enumerate(chosen, 1):
        title = f"[{number}/{len(chosen)}] {stage.name}"
        _check_needs(stage)
        inputs = stage.inputs()
        forced = selection.force or kinds.index(stage.kind) >= first_forced
        reason = "forced" if forced else reason_to_run(stage.folder, stage.base, inputs)
        if reason is None:
            say(f"{title}: skipped, nothing it depends on has changed")
            continue
        say(f"{title}: started ({reason})")
        seconds = _run(stage, inputs)
        say(f"{title}: done in {seconds:.1f} s")
        done.append(stage)
    return done


def _check_needs(stage: Stage) -> None:
    for folder in stage.needs:
        if Record.load(folder) is None:
            raise StageError(f"{stage.name} needs {folder}, which has not been built; run `triton-ads build`")


def _run(stage: Stage, inputs: Digests) -> float:
    shutil.rmtree(stage.folder, ignore_errors=True)
    stage.folder.mkdir(parents=True)
    start = time.monotonic()
    elsewhere = stage.run()
    seconds = time.monotonic() - start
    outputs = path_digests([stage.folder, *elsewhere], stage.base, ignore=RECORD_FILE)
    Record(inputs, outputs, seconds).save(stage.folder)
    return seconds
