"""What a stage's outputs were made from, kept beside them: written last, so that a stage cut short has none."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from triton_ads.pipeline.inputs import Digests, path_digests

RECORD_FILE = "stage.json"
_NAMED = 3  # changes that a reason names; the rest is counted


@dataclass(frozen=True)
class Record:
    """Digests of a finished stage; paths of outputs are relative to VAR."""

    inputs: Digests
    outputs: Digests
    seconds: float

    def save(self, folder: Path) -> None:
        part = folder / f".{RECORD_FILE}"
        part.write_text(json.dumps(asdict(self), indent=1) + "\n")
        part.rename(folder / RECORD_FILE)

    @classmethod
    def load(cls, folder: Path) -> Self | None:
        """None: the stage has not been finished, or its record is no record."""
        try:
            return cls(**json.loads((folder / RECORD_FILE).read_text()))
        except (OSError, ValueError, TypeError):
            return None


def reason_to_run(folder: Path, base: Path, inputs: Digests) -> str | None:
    """Why the stage whose outputs lie in `folder` must run; None: what is there is what it would write.

    Args:
        base: what the paths of outputs are relative to.
    """
    record = Record.load(folder)
    if record is None:
        return "it was not finished" if folder.exists() else "first time"
    changes = _changes(record.inputs, inputs)
    if changes:
        return _name(changes)
    found = path_digests((base / path for path in record.outputs), base)
    damaged = _changes(record.outputs, found)
    return f"output {_name(damaged)}" if damaged else None


def _changes(before: Digests, after: Digests) -> list[str]:
    return [
        *(f"{name} changed" for name in before if name in after and before[name] != after[name]),
        *(f"{name} is new" for name in after if name not in before),
        *(f"{name} is gone" for name in before if name not in after),
    ]


def _name(changes: list[str]) -> str:
    more = len(changes) - _NAMED
    return ", ".join(changes[:_NAMED]) + (f" and {more} more" if more > 0 else "")
