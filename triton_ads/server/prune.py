"""Releases that nobody needs any more."""

import re
import shutil
from collections.abc import Collection
from pathlib import Path

from triton_ads.manifest import MANIFEST_FILE


def prune_releases(releases: Path, recipe: str, keep: int, protected: Collection[Path]) -> list[str]:
    """Remove releases of a recipe but the newest `keep` and the `protected`; returns the names of those removed."""
    name = re.compile(rf"{re.escape(recipe)}-[0-9a-f]{{12}}")
    found = [path for path in releases.iterdir() if name.fullmatch(path.name) and (path / MANIFEST_FILE).is_file()]
    newest = sorted(found, key=lambda path: (path / MANIFEST_FILE).stat().st_mtime, reverse=True)
    safe = {path.resolve() for path in protected}
    removed = []
    for path in newest[keep:]:
        if path.resolve() not in safe:
            # Under another name first: a release is there whole, or not at all.
            gone = path.with_name(f".removed-{path.name}")
            shutil.rmtree(gone, ignore_errors=True)
            path.rename(gone)
            shutil.rmtree(gone)
            removed.append(path.name)
    return sorted(removed)
