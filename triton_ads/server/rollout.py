"""One release's models on a running server: loaded beside those that are served, switched to, taken back, or kept.

    single     rank/4 is loaded and becomes what clients get, because it is the newest version that is ready
    ensemble   router/4, user_encoder/4, item_scorer/4 are loaded; nobody gets them until the config of the ensemble
               names version 4. Triton then puts one ensemble in the place of the other, and each request goes through
               the models of the one with which it began

Before that, the canary asks models of its own: NAME_next.
"""

import logging
import shutil
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from google.protobuf import text_format

from triton_ads.export.repository import render_repository
from triton_ads.recipe import Recipe
from triton_ads.recipe.names import RANK, prefixed
from triton_ads.server.control import ControlError, TritonControl
from triton_ads.server.versions import (
    CANARY_MARK,
    CONFIG,
    accept_config,
    is_ensemble,
    read_config,
    remove_version,
    replace_config,
    restore_config,
    write_version,
)

_log = logging.getLogger("triton_ads.server")
_UNLOAD_TIMEOUT_S = 10.0


class Rollout:
    """The models of `release` as version `new`, beside version `old`.

    `load`, `switch` and `retire` in this order; `undo` after any of the first two, and after either has failed.
    """

    def __init__(
        self,
        repository: Path,
        control: TritonControl,
        recipe: Recipe,
        release: Path,
        old: int,
        new: int,
        timeout_s: float,
    ) -> None:
        self._repository, self._control, self._release = repository, control, release
        self._old, self._new, self._timeout_s = old, new, timeout_s
        files = render_repository(recipe, new)
        configs = {Path(path).parent.name: text for path, text in files.items() if path.endswith(f"/{CONFIG}")}
        self._ensembles = {name: text for name, text in configs.items() if is_ensemble(read_config(text))}
        self._models = {name: files[f"{name}/{new}/model.py"] for name in configs if name not in self._ensembles}
        self._configs = configs
        #: Of the models, the one that clients ask, in a layout where one model does it all.
        self._asked = {prefixed(RANK, recipe.serving.prefix)} & self._models.keys()
        self._hidden = [name for name in self._models if name not in self._asked]

    @property
    def versions(self) -> set[tuple[str, int]]:
        """(model, version) of what `retire` ends."""
        return {(name, self._old) for name in self._models}

    def canary_of(self, name: str) -> str:
        """The model that the canary asks in the place of `name`, between `load` and `switch`."""
        return f"{name}_next"

    def load(self) -> None:
        """Load what nobody asks yet: models that an ensemble chains, and the models of the canary.

        Raises:
            ControlError: Triton refused a model; the message has its reason.
            OSError: the repository cannot be written.
        """
        for name in self._hidden:
            write_version(self._repository / name, self._new, self._models[name], self._release)
            self._control.load(name, self._timeout_s)
        for name in (*self._asked, *self._ensembles):
            self._write_canary(name)
            self._control.load(self.canary_of(name), self._timeout_s)

    def switch(self) -> None:
        """Give clients the new version. Raises as `load`."""
        for name in self._asked:
            write_version(self._repository / name, self._new, self._models[name], self._release)
            self._control.load(name, self._timeout_s)
        for name, config in self._ensembles.items():
            replace_config(self._repository / name, config)
            self._control.load(name, self._timeout_s)
        self._end_canary()

    def undo(self) -> None:
        """Back to the old version, whatever was done; a server that does not answer will find it so when it starts."""
        for name in self._ensembles:
            restore_config(self._repository / name)
        self._load_again(self._ensembles)
        for name in self._models:
            remove_version(self._repository / name, self._new)
        self._load_again(self._models)
        self._end_canary()

    def retire(self) -> None:
        """End the old version, and wait for its end. Triton lets its last requests finish."""
        for name in self._ensembles:
            accept_config(self._repository / name)
        for name in self._models:
            remove_version(self._repository / name, self._old)
        self._load_again(self._models)
        end = time.monotonic() + _UNLOAD_TIMEOUT_S
        with suppress(ControlError):
            while self.versions & self._loaded() and time.monotonic() < end:
                time.sleep(0.1)

    def _loaded(self) -> set[tuple[str, int]]:
        return {(m.model, int(m.version)) for m in self._control.index() if m.state in ("READY", "UNLOADING")}

    def _load_again(self, names: Iterable[str]) -> None:
        for name in names:
            try:
                self._control.load(name, self._timeout_s)
            except ControlError as error:
                _log.warning("publish: %s", error)

    def _write_canary(self, name: str) -> None:
        folder = self._repository / self.canary_of(name)
        folder.mkdir()
        (folder / CANARY_MARK).touch()
        config = read_config(self._configs[name])
        config.name = folder.name
        for step in config.ensemble_scheduling.step:
            if step.model_name in self._asked:
                step.model_name, step.model_version = self.canary_of(step.model_name), 1
        if name in self._models:
            write_version(folder, 1, self._models[name], self._release)
        else:
            (folder / "1").mkdir()
        (folder / CONFIG).write_text(text_format.MessageToString(config), encoding="utf-8")

    def _end_canary(self) -> None:
        # Ensembles first: Triton keeps a model that one of them chains.
        for name in (*self._ensembles, *self._asked):
            folder = self._repository / self.canary_of(name)
            if folder.is_dir():
                with suppress(ControlError):
                    self._control.unload(folder.name, _UNLOAD_TIMEOUT_S)
                shutil.rmtree(folder, ignore_errors=True)


def tidy(repository: Path, control: TritonControl, settle: Callable[[Path], list[str]], timeout_s: float) -> None:
    """Take back what a publisher that was killed has left, on the disk and on the server."""
    for name in sorted({path.split("/")[0] for path in settle(repository)}):
        with suppress(ControlError):
            if (repository / name).is_dir():
                control.load(name, timeout_s)
            else:
                control.unload(name, _UNLOAD_TIMEOUT_S)
