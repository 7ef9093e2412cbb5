"""Triton's log, read for people: which model is ready or failed and why, and the warnings that matter."""

import itertools
import re
from dataclasses import dataclass
from pathlib import Path

# I1130 04:41:33.331813 5495 model_lifecycle.cc:839] "successfully loaded 'echo'"
_RECORD = re.compile(r'^([IWEF])\d{4} \d\d:\d\d:\d\d\.\d+ \d+ (\S+)\] ?"?(.*?)"?\s*$')
_LOADED = re.compile(r"^successfully loaded '([^']+)'")
_FAILED = (
    re.compile(r"^failed to load (?:model )?'([^']+)'(?: version -?\d+)?: (.*)$", re.DOTALL),
    re.compile(r"^Poll failed for model directory '([^']+)': (.*)$", re.DOTALL),
    re.compile(r"^Invalid argument: ensemble '([^']+)' (depends on .*)$", re.DOTALL),
)
_OPENED = re.compile(r"^Started (\S+)")

# What a machine without a GPU always logs, what only announces a stop, and what is said again with its reason.
_NOISE = (
    "CudaDriverHelper has not been initialized",
    "unable to create stream",
    "failed to allocate pinned system memory",
    "Unable to allocate pinned system memory",
    "Failed to initialize NVML",
    "DCGM unable to start",
    "Exit timeout expired",
    "failed to load all models",
    "ERROR: Failed to create instance",
)


@dataclass(frozen=True)
class Record:
    """One record of the log: level I, W, E or F, and its text with escapes resolved.

    The level is "" for a line that is no record of Triton's: a table, or what a model printed.
    """

    level: str
    text: str

    @property
    def matters(self) -> bool:
        return self.level not in ("I", "") and not any(noise in self.text for noise in _NOISE)

    @property
    def loaded(self) -> str | None:
        """The model that this record says is ready."""
        match = _LOADED.match(self.text)
        return match.group(1) if match else None

    @property
    def opened(self) -> str | None:
        """The service whose port was opened: GRPCInferenceService, HTTPService or Metrics."""
        match = _OPENED.match(self.text)
        return match.group(1) if match else None

    @property
    def failed(self) -> tuple[str, str] | None:
        """The model that this record says cannot be loaded, and why."""
        matches = (pattern.match(self.text) for pattern in _FAILED) if self.level == "E" else ()
        return next(((m.group(1), m.group(2).strip()) for m in matches if m), None)


def parse_record(line: str) -> Record:
    """Read one line of the log."""
    match = _RECORD.match(line)
    if match is None:
        return Record("", line.rstrip())
    level, _, text = match.groups()
    return Record(level, text.replace("\\n", "\n").replace('\\"', '"').strip())


class LogReader:
    """Reads what was appended to a log file since the last call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._rest = b""

    def read(self) -> list[Record]:
        """New complete lines; a missing file reads as empty."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [parse_record(line.decode(errors="replace")) for line in lines]


def last_lines(path: Path, count: int) -> list[str]:
    """The last lines of a log that are no tables, nor the help that follows a wrong option."""
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return []
    told = list(itertools.takewhile(lambda line: not line.startswith("Usage: tritonserver"), lines))
    return [line for line in told if line.strip() and line[0] not in "|+"][-count:]
