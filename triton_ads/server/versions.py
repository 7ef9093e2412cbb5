"""The versions of models in a repository: one more beside the one that is served, and one less.

    item_scorer/3/  model.py  release -> the release that is served
    item_scorer/4/  the same, of the release that is being published
    rank/config.pbtxt         an ensemble: names version 3 of its models until it is switched to 4

A version folder appears whole or not at all, a config is replaced in one step, and neither needs space on the disk to
be taken back. Triton loads a model again where a file of it is newer than before; the bytecode that Python writes
beside model.py would count, so it is written in advance.
"""

import os
import py_compile
import shutil
from collections.abc import Iterable
from pathlib import Path

from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2 as pb

from triton_ads.recipe.names import RELEASE_LINK

CONFIG = "config.pbtxt"
#: In the folder of a model that exists for the canary of a release that is being published.
CANARY_MARK = ".canary"
_BEFORE = ".before"


def read_config(text: str) -> pb.ModelConfig:
    return text_format.Parse(text, pb.ModelConfig())


def is_ensemble(config: pb.ModelConfig) -> bool:
    return bool(config.ensemble_scheduling.step)


def versions_of(model: Path) -> list[int]:
    """The version folders of a model, increasing."""
    return sorted(int(path.name) for path in model.glob("[0-9]*") if path.name.isdigit() and path.is_dir())


def write_version(model: Path, version: int, source: str, release: Path) -> None:
    """Add the folder of a version whose model.py is `source` and which serves `release`."""
    staging = model / f".{version}"  # no number: Triton does not look at it
    shutil.rmtree(staging, ignore_errors=True)
    try:
        staging.mkdir(parents=True)
        (staging / "model.py").write_text(source, encoding="utf-8")
        compile_model(staging)
        # A relative link is read from the folder in which it really lies; the staging folder is as deep as the version.
        link = os.path.relpath(release.resolve(), staging.resolve())
        (staging / RELEASE_LINK).symlink_to(link, target_is_directory=True)
        staging.rename(model / str(version))
    except BaseException:
        shutil.rmtree(staging, ignore_errors=True)
        raise


def remove_version(model: Path, version: int) -> None:
    shutil.rmtree(model / str(version), ignore_errors=True)


def compile_model(version: Path) -> None:
    """Write the bytecode of a version's model.py, where that is possible."""
    source = version / "model.py"
    if source.is_file():
        try:
            py_compile.compile(str(source))
        except OSError:  # a repository that may not be written: then Python cannot write it either
            return


def compile_models(repository: Path) -> None:
    """The same for all versions of all models whose bytecode is missing or old."""
    for source in repository.glob("*/[0-9]*/model.py"):
        cached = source.parent / "__pycache__"
        compiled = [path.stat().st_mtime for path in cached.glob("model.*.pyc")]
        if not compiled or min(compiled) < source.stat().st_mtime:
            compile_model(source.parent)


def replace_config(model: Path, text: str) -> None:
    """Put a config in the place of another in one step; `restore_config` takes it back, also on a full disk."""
    path, before, new = (model / f"{CONFIG}{suffix}" for suffix in ("", _BEFORE, ".new"))
    new.write_text(text, encoding="utf-8")
    before.unlink(missing_ok=True)
    before.hardlink_to(path)
    new.replace(path)


def restore_config(model: Path) -> None:
    """The config before the last `replace_config`, if that was not accepted."""
    before = model / f"{CONFIG}{_BEFORE}"
    (model / f"{CONFIG}.new").unlink(missing_ok=True)
    if before.exists():
        before.replace(model / CONFIG)


def accept_config(model: Path) -> None:
    """There is no way back any more."""
    (model / f"{CONFIG}{_BEFORE}").unlink(missing_ok=True)


def settle(repository: Path) -> list[str]:
    """Take back what a publisher that was killed has left; only where none is at work. Returns what was removed.

    A config that was not accepted goes. What an ensemble names stays; of a model that no ensemble names, the oldest
    version: the newer one was not accepted.
    """
    removed = []
    for mark in repository.glob(f"*/{CANARY_MARK}"):
        removed.append(mark.parent.name)
        shutil.rmtree(mark.parent, ignore_errors=True)
    models = [path.parent for path in repository.glob(f"*/{CONFIG}")]
    for model in models:
        if (model / f"{CONFIG}{_BEFORE}").exists():  # switched, and not accepted
            removed.append(f"{model.name}/{CONFIG}")
            restore_config(model)
    named = _named_versions(model / CONFIG for model in models)
    for model in models:
        for rest in (*model.glob(".[0-9]*"), *model.glob(f"{CONFIG}.*")):
            removed.append(f"{model.name}/{rest.name}")
            shutil.rmtree(rest) if rest.is_dir() else rest.unlink()
        versions = versions_of(model)
        if len(versions) < 2:
            continue
        kept = named.get(model.name, set()) & set(versions) or {versions[0]}
        for version in set(versions) - kept:
            removed.append(f"{model.name}/{version}")
            remove_version(model, version)
    return sorted(removed)


def _named_versions(configs: Iterable[Path]) -> dict[str, set[int]]:
    """Model -> its versions that ensembles name."""
    named: dict[str, set[int]] = {}
    for path in configs:
        try:
            config = read_config(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, text_format.ParseError):  # Triton will say what is wrong with it
            continue
        for step in config.ensemble_scheduling.step:
            if step.model_version > 0:
                named.setdefault(step.model_name, set()).add(step.model_version)
    return named
