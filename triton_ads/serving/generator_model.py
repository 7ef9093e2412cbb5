"""The model `generator`: which ads could follow a user's journey or answer a query, scored in the identifier tree."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from triton_ads.serving import counters as count
from triton_ads.serving.blocked_ads import BlockedAds
from triton_ads.serving.checks import Tensors, check_deadline
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.prompts import Prompt, PromptEncoder
from triton_ads.serving.release import Release
from triton_ads.serving.service import Outputs, now_us
from triton_ads.serving.target.ads import Asked
from triton_ads.serving.target.layers import flattened
from triton_ads.serving.target.search import Found
from triton_ads.serving.target_plan import Plan
from triton_ads.serving.target_release import open_prompts, open_search, open_tree, open_users, target_of
from triton_ads.serving.triton_model import TritonModel

# T nodes that were scored, N ads


@dataclass(frozen=True)
class GeneratorRequest:
    prompt: Prompt
    plan: Plan

    @property
    def deadline_us(self) -> int:
        return self.plan.deadline_us


class GeneratorService:
    """Answers with what the search has scored at last; all requests of a batch are searched together.

    Args:
        now: unix time in microseconds.

    Raises:
        ManifestError, TreeError, SearchError: the release has no targeting part, or its parts do not belong together.
    """

    def __init__(self, release: Release, counters: Counters, now: Callable[[], int] = now_us) -> None:
        self._release, self._counters, self._now = release, counters, now
        self._target, _ = target_of(release)
        tree, form = open_tree(release), open_prompts(release)
        self._prompts = PromptEncoder(tree, form, open_users(release), counters)
        self._search = open_search(release, tree, form)
        self._blocked = BlockedAds(release, tree)

    def parse(self, tensors: Tensors) -> GeneratorRequest:
        top, deadline_us = int(tensors["top"][0, 0]), int(tensors["deadline_us"][0, 0])
        if not 0 <= top <= self._target.max_top:
            raise RequestError(
                Cause.OUT_OF_RANGE, f"top: {top} found, 0 to {self._target.max_top} allowed (target.max_top)"
            )
        deadline_us = deadline_us or self._now() + self._target.deadline_ms * 1000
        plan = Plan(top or self._target.beam, deadline_us, self._release.number)
        return GeneratorRequest(self._prompts.encode(tensors), plan)

    def groups(self, requests: Sequence[GeneratorRequest]) -> list[int]:
        return [0] * len(requests)

    def answer(self, requests: Sequence[GeneratorRequest]) -> list[Outputs | RequestError]:
        def check(number: int) -> None:
            check_deadline(requests[number].deadline_us, self._now())

        asked = [Asked(one.prompt.tokens_P, one.prompt.withheld_N, one.plan.top) for one in requests]
        searched, spent = self._search.run(asked, check, self._blocked.now())
        self._counters.add(count.SEARCH_SECONDS, amount=spent.seconds)
        self._counters.add(count.PREDICTED_SECONDS, amount=spent.predicted_seconds)
        answers: list[Outputs | RequestError] = []
        for request, search in zip(requests, searched, strict=True):
            if search.found is not None:
                self._count(search.found)
                answers.append(_outputs(request, search.found))
            elif isinstance(search.stopped, RequestError):
                answers.append(search.stopped)
            else:
                raise search.stopped or AssertionError("a search ended without an outcome")
        return answers

    def _count(self, found: Found) -> None:
        self._counters.add(count.SEARCHES, str(found.level or "none"))
        self._counters.add(count.SEARCH_FORWARDS, amount=found.forwards)
        self._counters.add(count.SEARCH_TOKENS, amount=found.tokens)
        self._counters.add(count.VERIFIED_TOKENS, amount=found.verified)
        self._counters.add(count.STEPS_SAVED, amount=found.steps_saved)

    def warm_up(self) -> None:
        """Nothing: calibration has run forwards of every size."""


def _outputs(request: GeneratorRequest, found: Found) -> Outputs:
    node_T, parent_T, logp_T = flattened(found.layers)
    return {
        "nodes": node_T.astype(np.int32)[None],
        "parents": parent_T.astype(np.int32)[None],
        "log_probabilities": logp_T[None],
        "withheld": request.prompt.withheld_N[None],
        "plan": request.plan.tensor(),
    }


class GeneratorModel(TritonModel):
    """What Triton loads."""

    def build(self, folder: Path, counters: Counters) -> GeneratorService:
        return GeneratorService(Release.open(folder, "target"), counters)
