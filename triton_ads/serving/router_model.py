"""The model `router`: who the user is, which tier answers, and until when."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from triton_ads.features.encoder import scenario_rows
from triton_ads.features.vocabulary import Tables
from triton_ads.recipe import Recipe
from triton_ads.routing.load import LoadLevel
from triton_ads.serving import counters as count
from triton_ads.serving.backlog import Backlog
from triton_ads.serving.budget import Budget
from triton_ads.serving.checks import Tensors, check_candidates
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import Cause, RequestError, shown
from triton_ads.serving.load_report import LoadReceiver
from triton_ads.serving.release import Release
from triton_ads.serving.router import MARGIN, Decision, Policy, Reason, decide
from triton_ads.serving.router_gain import GainRouter
from triton_ads.serving.service import Outputs, Route, now_us
from triton_ads.serving.store import UserStore
from triton_ads.serving.triton_model import TritonModel
from triton_ads.serving.users import EncodedUser, UserEncoder


class HighScenarios:
    """The recipe's `router.high_scenarios`, as rows of the scenario's column."""

    def __init__(self, recipe: Recipe, tables: Tables) -> None:
        scenarios = recipe.router.high_scenarios
        self._rows = frozenset(scenario_rows(recipe, tables, scenarios)) if scenarios else None
        names = [column.feature for column in recipe.id_columns("user", "context")]
        self._column = names.index(recipe.scenario.feature) if recipe.scenario is not None else 0

    def allow(self, rows_F: NDArray[np.int64]) -> bool:
        """Whether the high tier may answer a request with these rows of user and context columns."""
        return self._rows is None or int(rows_F[self._column]) in self._rows


@dataclass(frozen=True)
class RouterRequest:
    user: EncodedUser
    context_allows: bool
    candidates: int
    deadline_us: int
    insisted: str | None


class Router:
    """Looks the user up, chooses the tier, stamps the deadline.

    Args:
        now: unix time in microseconds; its differences also fill the budget of the high tier.
        reports: what all models of the release say of the load; None: nobody says anything.

    Raises:
        ManifestError, GainError: the recipe wants a learned router, and the release has none, or one of another recipe.
    """

    def __init__(
        self,
        release: Release,
        counters: Counters,
        now: Callable[[], int] = now_us,
        reports: LoadReceiver | None = None,
    ) -> None:
        recipe = release.recipe
        self._counters, self._now, self._release = counters, now, release
        store, tables = UserStore(release.folder / "store" / "users", recipe), release.tables()
        self._users = UserEncoder(recipe, tables, store, counters)
        self._high_scenarios = HighScenarios(recipe, tables)
        self._policy = Policy.of(recipe, {tier: part.cost for tier, part in release.manifest.tiers.items()})
        # Instances are processes that know nothing of each other: each has its share.
        self._rate = recipe.router.high_candidates_per_second / recipe.serving.instances
        self._budget = Budget(self._rate, self._seconds)
        self._load, self._reports = LoadLevel(self._seconds), reports
        self._backlog = Backlog()
        self._gain = GainRouter(release, tables, self._seconds) if self._policy.learned else None
        self._tier_index = {tier: i for i, tier in enumerate(release.tiers)}

    def _seconds(self) -> float:
        return self._now() / 1e6

    def parse(self, tensors: Tensors) -> RouterRequest:
        serving = self._release.recipe.serving
        candidates = tensors["candidates"].shape[1]
        check_candidates(candidates, serving.max_candidates)
        deadline_us = int(tensors["deadline_us"][0, 0]) or self._now() + serving.deadline_ms * 1000
        insisted = self._insisted(tensors["insisted_tier"][0, 0])
        user = self._users.encode(tensors)
        return RouterRequest(user, self._high_scenarios.allow(user.rows_1F[0]), candidates, deadline_us, insisted)

    def _insisted(self, name: bytes) -> str | None:
        tier = name.decode(errors="replace")
        if tier and tier not in self._tier_index:
            raise RequestError(
                Cause.UNKNOWN_TIER,
                f"insisted_tier: {shown(tier)} found, {', '.join(self._tier_index)} or empty allowed",
            )
        return tier or None

    @property
    def budget_per_second(self) -> float:
        """Candidates a second that the high tier may score under the load just now."""
        return self._budget.per_second

    def groups(self, requests: Sequence[RouterRequest]) -> list[int]:
        return [0] * len(requests)

    def answer(self, requests: Sequence[RouterRequest]) -> list[Outputs | RequestError]:
        decided = zip(requests, self.choose(requests), strict=True)
        return [self._outputs(request, decision) for request, decision in decided]

    def choose(self, requests: Sequence[RouterRequest]) -> list[Decision]:
        """The tier of each request. What is given to the high tier is taken from its budget, so ask once."""
        now = self._now()
        if self._reports is not None:
            self._reports.read(self._load.saw)
        self._budget.limit(self._rate * self._load.level())
        gains = (
            self._gain.gains([request.user for request in requests])
            if self._gain is not None
            else [0.0] * len(requests)
        )
        decisions = []
        for request, gain in zip(requests, gains, strict=True):
            decision = self._decide(request, float(gain), now)
            if decision.tier == self._policy.high_tier:
                self._budget.spend(request.candidates)
                self._backlog.add(self._policy.high_ms(request.candidates), now)
            self._counters.add(count.CHOICES, decision.tier, decision.reason)
            decisions.append(decision)
        return decisions

    def _decide(self, request: RouterRequest, gain: float, now: int) -> Decision:
        left_ms, ahead_ms = (request.deadline_us - now) / 1000, self._backlog.ahead_ms(now)
        decision = decide(
            self._policy,
            context_allows=request.context_allows,
            history=request.user.history,
            candidates=request.candidates,
            left_ms=left_ms,
            ahead_ms=ahead_ms,
            worth=lambda: self._gain is not None and self._gain.worth(gain, request.candidates, self._budget),
            budget=self._budget.left(),
            insisted=request.insisted,
        )
        if decision.reason == Reason.DEADLINE and left_ms >= MARGIN * self._policy.high_ms(request.candidates):
            self._load.saw(crowded=True)  # it would have been in time but for the queue
        return decision

    def _outputs(self, request: RouterRequest, decision: Decision) -> Outputs:
        tier = self._tier_index[decision.tier]
        return {
            "user_rows": request.user.rows_1F,
            "user_floats": request.user.floats_1D,
            "sequence_rows": request.user.sequences_1L,
            "route": Route(tier, request.deadline_us, self._release.number).tensor(),
            **decision.tensors(),
        }

    def warm_up(self) -> None:
        """Nothing: a look-up is as quick the first time, up to a page fault."""


class RouterModel(TritonModel):
    """What Triton loads. The router verifies the whole release, the others only what they read themselves."""

    def build(self, folder: Path, counters: Counters) -> Router:
        release = Release.open(folder)
        return Router(release, counters, reports=LoadReceiver(folder, release.recipe.serving.instances))
