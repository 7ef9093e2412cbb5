"""What a stage prints."""

import io

import pytest
from rich.console import Console

from triton_ads import progress
from triton_ads.progress import StageProgress


def run(terminal: bool) -> str:
    text = io.StringIO()
    with StageProgress("train standard", 3, Console(file=text, force_terminal=terminal, width=100)) as stage:
        for step in range(3):
            stage.advance(f"loss {step}.5")
    return text.getvalue()


def test_a_log_gets_no_bar_and_nothing_from_a_short_stage() -> None:
    assert run(terminal=False) == ""


def test_a_log_gets_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_EVERY_S", 0.0)
    assert run(terminal=False).splitlines() == [f"train standard: {i + 1} of 3, loss {i}.5" for i in range(3)]


def test_a_terminal_gets_a_bar() -> None:
    assert "3/3" in run(terminal=True)
