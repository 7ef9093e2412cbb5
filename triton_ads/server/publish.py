"""A new release behind a running server, without a request lost or an answer mixed from two releases.

    check     digests, parts that belong together, parity, calibration, the same tensors as what is served
    load      the new models beside the old ones, where only the canary finds them
    canary    users and ads of the new release's own store, through every tier
    switch    clients' requests go to the new models; those under way are finished by the old ones
    watch     `rank` is asked for a while; where it fails twice in a row, back to the old models
    retire    the old models end when nobody asks them any more; old releases go

Whatever fails before the end of the watch is taken back, and the old release serves as before. docs/drills.md says how
that is done with Triton's versions, and shows it.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from triton_ads.client import RankError
from triton_ads.export.calibration_bound import CalibrationError
from triton_ads.export.configs import render_configs
from triton_ads.export.parity_bound import ParityError
from triton_ads.export.repository import served_recipes
from triton_ads.export.served import publishing
from triton_ads.manifest import MANIFEST_FILE, Manifest, ManifestError
from triton_ads.recipe import Recipe
from triton_ads.recipe.names import ADS, RANK, RELEASE_LINK, TARGET, prefixed
from triton_ads.server.control import ControlError, TritonControl
from triton_ads.server.prune import prune_releases
from triton_ads.server.published import History
from triton_ads.server.release_canary import CanaryError, ReleaseCanary
from triton_ads.server.release_checks import PublishError, check_release, check_same_models
from triton_ads.server.rollout import Rollout, tidy
from triton_ads.server.versions import settle, versions_of


@dataclass(frozen=True)
class PublishLimits:
    """Bounds, in seconds where not said otherwise."""

    load_timeout_s: float = 120.0  # of one model
    canary_timeout_s: float = 5.0  # of one question
    watch_s: float = 10.0
    watch_period_s: float = 0.5
    canary_failures: int = 2  # in a row, while watched, before the way back is taken
    quiet_s: float = 1.0  # without an execution, before the old models go
    drain_s: float = 60.0  # after which they go all the same


DEFAULT_LIMITS = PublishLimits()


@dataclass
class Published:
    """What was done."""

    recipe: str
    release: str
    before: str
    seconds: dict[str, float] = field(default_factory=dict)  # of each step
    pruned: list[str] = field(default_factory=list)  # folders of old releases that were removed


@dataclass(frozen=True)
class Publisher:
    """Publishes into the repository of a running server.

    Args:
        url: host:port of the server's HTTP.
        key: of a server that listens beyond this machine, which restricts model control.
        keep: how many releases of a recipe stay in their folder; what is served, and what was before it, always does.
        say: gets a line for each step.
    """

    repository: Path
    url: str
    key: str = ""
    keep: int = 3
    limits: PublishLimits = DEFAULT_LIMITS
    say: Callable[[str], None] = lambda line: None

    def publish(self, release: Path) -> Published:
        """Serve `release` in the place of the one that its recipe has on the server.

        Raises:
            PublishError: it was refused, or taken back; what was served before still is.
            PublishRunningError: another process publishes.
        """
        self._served()
        if not release.is_dir():
            known = ", ".join(self._releases()) or "none"
            raise PublishError(f"{release}: no such release; there are: {known}")
        return self._told(release, lambda history, before: history.push(before))

    def rollback(self, recipe: str | None = None) -> tuple[Published, str | None]:
        """Serve the release that was served before; `recipe` names whose, where the repository serves several.

        Returns:
            What was done, and the release to which another rollback would go; None: there is none.

        Raises:
            PublishError: none is known, or as `publish`.
        """
        served = self._served()
        found = [rank for rank, name in served.items() if recipe in (None, name)]
        if len(found) != 1:
            wanted = "name one with --recipe NAME" if recipe is None else f"no recipe {recipe!r} found; allowed"
            raise PublishError(f"{self.repository}: {wanted}: {', '.join(sorted(served.values()))}")
        (rank,) = found
        before = History(self.repository, rank).before()
        if before is None:
            raise PublishError(f"{self.repository}: nothing was published before what {rank} serves")
        done = self._told(before, lambda history, _: history.pop())
        further = History(self.repository, rank).before()
        return done, further.name.removeprefix(f"{done.recipe}-") if further is not None else None

    def _told(self, release: Path, remember: Callable[[History, Path], None]) -> Published:
        try:
            return self._publish(release, remember)
        except OSError as error:  # before anything was changed, or after everything was
            raise PublishError(f"{self.repository}: {error}") from None

    def _publish(self, release: Path, remember: Callable[[History, Path], None]) -> Published:
        with publishing(self.repository):
            control = TritonControl(self.url, self.key)
            if not control.live():
                raise PublishError(
                    f"no server answers HTTP at {self.url}: start one with triton-ads serve, or say --url"
                )
            tidy(self.repository, control, settle, self.limits.load_timeout_s)
            seconds: dict[str, float] = {}
            with _step("check", seconds, self.say):
                manifest, before, version = self._check(release)
            recipe = manifest.recipe
            done = Published(recipe.name, manifest.release, Manifest.load(before, verify_files=False).release, seconds)
            rollout = Rollout(
                self.repository,
                control,
                recipe,
                release,
                old=version,
                new=version + 1,
                timeout_s=self.limits.load_timeout_s,
            )
            canary = ReleaseCanary(self.url, release, manifest, self.limits.canary_timeout_s)
            try:
                with _step("load", seconds, self.say):
                    rollout.load()
                with _step("canary", seconds, self.say):
                    _ask(canary, recipe, rollout.canary_of)
                with _step("switch", seconds, self.say):
                    rollout.switch()
                with _step("watch", seconds, self.say):
                    self._watch(canary, prefixed(RANK, recipe.serving.prefix))
                remember(History(self.repository, prefixed(RANK, recipe.serving.prefix)), before)
            except BaseException as error:
                self.say("taken back")
                rollout.undo()
                if isinstance(error, (ControlError, RankError, CanaryError, OSError)):
                    raise PublishError(
                        f"release {manifest.release} was taken back, {done.before} serves: {error}"
                    ) from None
                raise
            with _step("retire", seconds, self.say):
                self._drain(control, rollout)
                rollout.retire()
            done.pruned = self._prune(release, recipe)
        return done

    def _check(self, release: Path) -> tuple[Manifest, Path, int]:
        """The manifest of the release, and the folder and the version of the one that is served."""
        try:
            manifest = check_release(release)
        except (ManifestError, ParityError, CalibrationError) as error:
            raise PublishError(f"{release} is refused: {error}") from None
        recipe = manifest.recipe
        rank = self._rank_of(recipe.name)
        if rank != prefixed(RANK, recipe.serving.prefix):
            raise PublishError(f"{release} is refused: it is of the prefix {recipe.serving.prefix}, {rank} is served")
        check_same_models(recipe, self.repository)
        found = [
            (version, (self.repository / name / str(version) / RELEASE_LINK))
            for name in render_configs(recipe)
            for version in versions_of(self.repository / name)
        ]
        links = [(version, link) for version, link in found if link.is_symlink()]
        served = {link.resolve() for _, link in links}
        if len(served) != 1:
            raise PublishError(f"{self.repository}: the models of {rank} do not serve one release: {sorted(served)}")
        before = served.pop()
        if before == release.resolve():
            raise PublishError(f"nothing new to publish: release {manifest.release} is served")
        return manifest, before, max(version for version, _ in links)

    def _served(self) -> dict[str, str]:
        """The recipe behind every `rank`."""
        served = served_recipes(self.repository)
        if not served:
            raise PublishError(
                f"{self.repository}: no model repository with a release; make one with: triton-ads build"
            )
        return served

    def _rank_of(self, recipe: str) -> str:
        """What clients ask for rankings of a recipe."""
        served = self._served()
        found = [rank for rank, name in served.items() if name == recipe]
        if len(found) != 1:
            names = ", ".join(f"{name} as {rank}" for rank, name in served.items())
            raise PublishError(
                f"{self.repository}: serves {names}; {recipe} is not served yet: stop the server, build the recipe "
                "again (triton-ads build --recipe FILE), then triton-ads serve"
            )
        return found[0]

    def _releases(self) -> list[str]:
        """The folders beside the releases that are served, and these."""
        folders = {link.resolve().parent for link in self.repository.glob(f"*/*/{RELEASE_LINK}")}
        return sorted(os.path.relpath(path.parent) for folder in folders for path in folder.glob(f"*/{MANIFEST_FILE}"))

    def _watch(self, canary: ReleaseCanary, rank: str) -> None:
        end, failures = time.monotonic() + self.limits.watch_s, 0
        while True:
            try:
                canary.rank(rank, quick=True)
                failures = 0
            except (RankError, CanaryError):
                failures += 1
                if failures >= self.limits.canary_failures:
                    raise
            if time.monotonic() >= end and not failures:
                return
            time.sleep(self.limits.watch_period_s)

    def _drain(self, control: TritonControl, rollout: Rollout) -> None:
        """Wait until the old models have executed nothing for a while."""
        end = time.monotonic() + self.limits.drain_s
        before, since = self._executions(control, rollout), time.monotonic()
        while time.monotonic() - since < self.limits.quiet_s and time.monotonic() < end:
            time.sleep(self.limits.quiet_s / 4)
            now = self._executions(control, rollout)
            if now != before:
                before, since = now, time.monotonic()

    @staticmethod
    def _executions(control: TritonControl, rollout: Rollout) -> dict[tuple[str, int], int]:
        try:
            found = control.executions_by_version()
        except ControlError:
            return {}
        return {key: found.get(key, 0) for key in rollout.versions}

    def _prune(self, release: Path, recipe: Recipe) -> list[str]:
        releases = release.resolve().parent
        before = History(self.repository, prefixed(RANK, recipe.serving.prefix)).before()
        linked = [link.resolve() for link in self.repository.glob(f"*/*/{RELEASE_LINK}")]
        built = releases.parent / "work" / recipe.name / "release" / "release"  # what `triton-ads build` made last
        protected = [release, built, *linked, *([before] if before is not None else [])]
        return prune_releases(releases, recipe.name, self.keep, protected)


def _ask(canary: ReleaseCanary, recipe: Recipe, canary_of: Callable[[str], str]) -> None:
    def model(name: str) -> str:
        return canary_of(prefixed(name, recipe.serving.prefix))

    canary.rank(model(RANK))
    if recipe.target is not None:
        canary.target(model(TARGET))
        canary.ads(model(ADS))


@contextmanager
def _step(name: str, seconds: dict[str, float], say: Callable[[str], None]) -> Iterator[None]:
    began = time.monotonic()
    yield
    seconds[name] = time.monotonic() - began
    say(f"{name}: {seconds[name]:.1f} s")
