"""What was served before: a stack of releases for every recipe, newest last, in REPOSITORY/published.json."""

import json
import os
from pathlib import Path

_FILE = "published.json"
_KEPT = 20


class History:
    """The releases that a model of a repository served before the one that it serves."""

    def __init__(self, repository: Path, model: str) -> None:
        self._repository, self._model = repository, model

    def before(self) -> Path | None:
        """The release that was served last; None: none is known."""
        found = self._read().get(self._model, [])
        return self._repository.resolve() / found[-1] if found else None

    def push(self, release: Path) -> None:
        found = self._read()
        path = os.path.relpath(release.resolve(), self._repository.resolve())
        found[self._model] = [*(known for known in found.get(self._model, []) if known != path), path][-_KEPT:]
        self._write(found)

    def pop(self) -> None:
        found = self._read()
        if found.get(self._model):
            found[self._model].pop()
            self._write(found)

    def _read(self) -> dict[str, list[str]]:
        try:
            return dict(json.loads((self._repository / _FILE).read_text()))
        except FileNotFoundError:
            return {}

    def _write(self, found: dict[str, list[str]]) -> None:
        new = self._repository / f".{_FILE}.new"
        new.write_text(json.dumps(found, indent=1) + "\n")
        new.replace(self._repository / _FILE)
