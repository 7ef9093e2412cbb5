"""The model `trie_verifier`: from scored nodes to ads. What is no node of the tree, or must not be answered, is left
out; log-probabilities are added from parent to child, and the best leaves are ads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from triton_ads.serving.blocked_ads import BlockedAds
from triton_ads.serving.checks import Tensors, check_finite, check_length
from triton_ads.serving.counters import Counters
from triton_ads.serving.errors import Cause, RequestError
from triton_ads.serving.release import Release
from triton_ads.serving.service import Outputs
from triton_ads.serving.target.ads import beam_of, selection
from triton_ads.serving.target.layers import Layer, best_leaves, layered, within, without
from triton_ads.serving.target.step import Ints
from triton_ads.serving.target_plan import Plan
from triton_ads.serving.target_release import open_tree, target_of
from triton_ads.serving.triton_model import TritonModel
from triton_ads.trie import Blocked, Withheld

# T nodes that were scored, N ads that are withheld, B ads of an answer


@dataclass(frozen=True)
class VerifierRequest:
    layers: list[Layer]
    withheld_N: Ints
    plan: Plan

    @property
    def deadline_us(self) -> int:
        return self.plan.deadline_us


class VerifierService:
    """Selects ads; nothing that it answers is outside the tree, withheld or blocked, whoever sent the nodes.

    Raises:
        ManifestError, TreeError: the release has no targeting part, or not the tree of its model.
    """

    def __init__(self, release: Release) -> None:
        self._release = release
        self._target, _ = target_of(release)
        self._tree = open_tree(release)
        self._blocked = BlockedAds(release, self._tree)
        self._release_name = np.array([[release.manifest.release.encode()]], np.object_)

    def parse(self, tensors: Tensors) -> VerifierRequest:
        plan = Plan.read(tensors, self._release)
        node_T, parent_T, logp_T = (tensors[name][0] for name in ("nodes", "parents", "log_probabilities"))
        check_length("parents", parent_T, len(node_T))
        check_length("log_probabilities", logp_T, len(node_T))
        check_finite("log_probabilities", logp_T)
        try:
            layers = layered(node_T.astype(np.int64), parent_T.astype(np.int64), logp_T)
        except ValueError as error:
            raise RequestError(Cause.OUT_OF_RANGE, str(error)) from None
        return VerifierRequest(layers, tensors["withheld"][0], plan)

    def groups(self, requests: Sequence[VerifierRequest]) -> list[int]:
        return [0] * len(requests)

    def answer(self, requests: Sequence[VerifierRequest]) -> list[Outputs | RequestError]:
        blocked = self._blocked.now()
        return [self._select(request, blocked) for request in requests]

    def _select(self, request: VerifierRequest, blocked: Blocked) -> Outputs:
        tree, top = self._tree, request.plan.top
        layers = without(within(tree, request.layers), Withheld(blocked, request.withheld_N))
        node_B, score_B = best_leaves(tree, layers, beam_of(self._target, top), selection(self._target))
        return {
            "target_ids": tree.ad_of(node_B[:top])[None],
            "target_scores": score_B[:top].astype(np.float32)[None],
            "target_release": self._release_name,
        }

    def warm_up(self) -> None:
        """Nothing: a selection is as quick the first time."""


class VerifierModel(TritonModel):
    """What Triton loads."""

    def build(self, folder: Path, counters: Counters) -> VerifierService:
        return VerifierService(Release.open(folder, "target/tree"))
