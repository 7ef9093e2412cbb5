"""Progress of a long stage: a bar on a terminal, a line every ten seconds elsewhere (logs, CI)."""

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

LINE_EVERY_S = 10.0


class StageProgress:
    """Use as a context manager and call `advance` for each step."""

    def __init__(self, what: str, steps: int, console: Console | None = None) -> None:
        self._what, self._steps, self._done = what, steps, 0
        self._console = console or Console()
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._task = self._bar.add_task(what, total=steps, note="")
        self._next_line = time.monotonic() + LINE_EVERY_S

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def advance(self, note: str) -> None:
        """One step is done; `note` says how it stands, for example the loss."""
        self._done += 1
        self._bar.update(self._task, completed=self._done, note=note)
        if not self._console.is_terminal and time.monotonic() >= self._next_line:
            self._console.print(f"{self._what}: {self._done} of {self._steps}, {note}", highlight=False)
            self._next_line = time.monotonic() + LINE_EVERY_S

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()
