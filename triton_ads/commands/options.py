"""Types of options: argparse names the option, these name the value found and what is allowed."""

import argparse
from collections.abc import Callable

MAX_PORT = 65535


def whole(low: int, high: int | None = None) -> Callable[[str], int]:
    """A whole number from `low` to `high`; None: no upper limit.

    >>> whole(0, 9)("7")
    7
    """
    allowed = f"a whole number from {low} to {high}" if high is not None else f"a whole number, {low} or more,"

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = None
        if number is None or number < low or (high is not None and number > high):
            raise argparse.ArgumentTypeError(f"{text!r} found, {allowed} allowed")
        return number

    return parse


def user(text: str) -> str:
    """The id of a user as it was given."""
    if not text.strip():
        raise argparse.ArgumentTypeError(f"{text!r} found, an id allowed; without the option nobody is asked for")
    return text
