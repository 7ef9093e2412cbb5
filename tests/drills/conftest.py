"""Figures of the drills: a table at the end, and `--full` for the long forms (scripts/drills.sh)."""

from collections.abc import Callable

import pytest

_FIGURES = pytest.StashKey[list[tuple[str, str]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="drills at full length: many minutes")


@pytest.fixture
def full(request: pytest.FixtureRequest) -> bool:
    """Whether the long form is wanted. Where drills run among all tests, pytest does not know the option."""
    return bool(request.config.getoption("--full", default=False))


@pytest.fixture
def report(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Add a line to the table: the drill, and what was seen."""
    figures = request.config.stash.setdefault(_FIGURES, [])
    return lambda drill, figure: figures.append((drill, figure))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    figures = config.stash.get(_FIGURES, [])
    if figures:
        terminalreporter.section("drills")
        width = max(len(drill) for drill, _ in figures)
        for drill, figure in figures:
            terminalreporter.write_line(f"{drill:{width}}  {figure}")
