"""Text to calibrate on, and other text to judge by: the documentation that comes with Python, nothing to download.

Topics of `pydoc_data.topics` repeat each other ("compound" holds all of "with"). Topics that share a paragraph are one
family; a family is read for calibration or is held out, never both, and each of its paragraphs once.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from pydoc_data.topics import topics
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Held out, with every topic of their families: chapters that are mostly prose.
HELD_OUT_TOPICS: Final = ("debugger", "execmodel", "import", "typesmapping")
#: Shorter paragraphs (headings, "See also") do not make two topics a family.
_SHARED_CHARACTERS: Final = 80

#: Text to token ids.
Encode = Callable[[str], Sequence[int]]


class TextError(ValueError):
    """Text that cannot serve for calibration; the message says what was found and what is needed."""


@dataclass(frozen=True)
class Texts:
    """The two halves, as text."""

    calibration: str
    held_out: str


def python_documentation() -> Texts:
    """The default: the documentation of the Python that runs this."""
    calibration: list[str] = []
    held_out: list[str] = []
    for family in families(topics):
        half = held_out if set(family) & set(HELD_OUT_TOPICS) else calibration
        seen: set[str] = set()
        for topic in family:
            for paragraph in _paragraphs(topics[topic]):
                if _key(paragraph) not in seen:
                    seen.add(_key(paragraph))
                    half.append(paragraph)
    return Texts("\n\n".join(calibration), "\n\n".join(held_out))


def families(documents: dict[str, str]) -> list[list[str]]:
    """Names of documents that share a paragraph, directly or through others; sorted."""
    family = {name: [name] for name in sorted(documents)}
    first: dict[str, str] = {}
    for name in sorted(documents):
        for paragraph in _paragraphs(documents[name]):
            key = _key(paragraph)
            if len(key) < _SHARED_CHARACTERS:
                continue
            one, other = family[first.setdefault(key, name)], family[name]
            if one is not other:
                one.extend(other)
                family.update({member: one for member in other})
    return sorted(sorted(members) for members in {id(members): members for members in family.values()}.values())


def _paragraphs(text: str) -> list[str]:
    return [part.strip("\n") for part in re.split(r"\n\s*\n", text) if part.strip()]


def _key(paragraph: str) -> str:
    return " ".join(paragraph.split())


def read_texts(paths: Iterable[Path]) -> str:
    """The user's own text: UTF-8 files, one after the other.

    Raises TextError for a file that cannot be read or is not UTF-8.
    """
    parts = []
    for path in paths:
        try:
            parts.append(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise TextError(f"{path}: {error}; text is UTF-8 files") from None
    return "\n\n".join(parts)


def with_held_out(text: str) -> Texts:
    """The user's own text in two: the last tenth of its paragraphs, those not met before, is held out."""
    paragraphs = _paragraphs(text)
    held_out = max(1, len(paragraphs) // 10)
    seen = {_key(paragraph) for paragraph in paragraphs[:-held_out]}
    unseen = [paragraph for paragraph in paragraphs[-held_out:] if _key(paragraph) not in seen]
    return Texts("\n\n".join(paragraphs[:-held_out]), "\n\n".join(unseen))


def token_sequences(ids: NDArray[np.int64], sequences: int, tokens: int) -> NDArray[np.int64]:
    """`sequences` pieces of `tokens` tokens of a text, without overlap, spread evenly over it: int64 [S, T].

    Raises TextError where the text is too short.
    """
    pieces = ids.size // tokens
    if pieces < sequences:
        raise TextError(
            f"the text has {ids.size} tokens; {sequences} sequences of {tokens} tokens need {sequences * tokens}"
        )
    starts_S = np.arange(sequences) * pieces // sequences * tokens
    return ids[starts_S[:, None] + np.arange(tokens)]
