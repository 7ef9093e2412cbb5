"""The model `rank` of the layout `single`: router, encoder and scorer in one process.

    batch -> parse -> choose tiers -> default tier: users -> candidates -> ranked
                                   -> others, in the slow lane: the same

What the ensemble of the same name does in three models, by the same classes; what these send each other is handed over
in memory here, and the states never leave the encoder's buffer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from triton_ads.serving.checks import Tensors, check_deadline
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import RequestError
from triton_ads.serving.item_ranker import ItemRanker, ItemRequest
from triton_ads.serving.load_report import LoadReceiver
from triton_ads.serving.release import Release
from triton_ads.serving.router import Decision
from triton_ads.serving.router_model import Router, RouterRequest
from triton_ads.serving.service import Outputs, count_group, now_us, tier_order
from triton_ads.serving.tier_encoder import tier_encoders
from triton_ads.serving.triton_model import TritonModel

# B requests, Z floats of state


@dataclass
class RankRequest:
    asked: RouterRequest
    items: ItemRequest
    decision: Decision | None = None  # none before the batch was grouped

    @property
    def deadline_us(self) -> int:
        return self.asked.deadline_us


class RankService:
    """Ranks candidates for users: one run of the encoder and shared runs of the scorer for each tier of a batch.

    Args:
        now: unix time in microseconds.
        reports: what all instances say of the load; None: nobody says anything.
    """

    def __init__(
        self,
        release: Release,
        counters: Counters,
        now: Callable[[], int] = now_us,
        reports: LoadReceiver | None = None,
    ) -> None:
        self._counters, self._release, self._now = counters, release, now
        self.router = Router(release, counters, now, reports)
        self._encoders = tier_encoders(release, counters)
        self._items = ItemRanker(release, counters)
        self._tier_index = {tier: i for i, tier in enumerate(release.tiers)}

    def parse(self, tensors: Tensors) -> RankRequest:
        return RankRequest(self.router.parse(tensors), self._items.parse(tensors))

    def groups(self, requests: Sequence[RankRequest]) -> list[int]:
        """Choose the tiers, and take note of them in the requests."""
        decisions = self.router.choose([request.asked for request in requests])
        for request, decision in zip(requests, decisions, strict=True):
            request.decision = decision
        return [tier_order(self._release, self._tier_index[decision.tier]) for decision in decisions]

    def answer(self, requests: Sequence[RankRequest]) -> list[Outputs | RequestError]:
        assert requests[0].decision is not None
        name = requests[0].decision.tier
        tier = self._tier_index[name]
        count_group(self._counters, name, len(requests))
        states_BZ = self._encoders[tier].encode([request.asked.user for request in requests])
        late, now = {}, self._now()  # the time of a run of the encoder has passed
        for i, request in enumerate(requests):
            try:
                check_deadline(request.deadline_us, now)
            except RequestError as error:
                late[i] = error
        alive = [i for i in range(len(requests)) if i not in late]
        if not alive:
            return list(late.values())
        ranked = iter(
            self._items.rank(tier, [requests[i].items for i in alive], states_BZ[alive] if late else states_BZ)
        )
        return [late[i] if i in late else _with_choice(next(ranked), requests[i]) for i in range(len(requests))]

    def warm_up(self) -> None:
        for encoder in self._encoders:
            encoder.warm_up()
        self._items.warm_up()


def _with_choice(ranked: Outputs | RequestError, request: RankRequest) -> Outputs | RequestError:
    if isinstance(ranked, RequestError):
        return ranked
    assert request.decision is not None
    return {**ranked, **request.decision.tensors()}


class RankModel(TritonModel):
    """What Triton loads."""

    def build(self, folder: Path, counters: Counters) -> RankService:
        release = Release.open(folder)
        return RankService(release, counters, reports=LoadReceiver(folder, release.recipe.serving.instances))
