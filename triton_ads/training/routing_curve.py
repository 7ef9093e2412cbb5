"""What a router is worth: quality against mean FLOPs, when the requests that it ranks first go to the high tier.

A *budget* is the share of requests that the high tier may answer. Its mean FLOPs are those of requests of CANDIDATES
candidates, as the manifest counts them:

    mean FLOPs = default + share x (high - default)        a tier: FLOPs a user + CANDIDATES x FLOPs an ad

A request's tier scores all of its examples, and the quality is that of all examples together, as if this mix had been
served.
"""

# Legend: n examples, R requests, K labels.

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.manifest import TierManifest
from triton_ads.training.gain import Floats, Requests, losses
from triton_ads.training.measures import auc

CANDIDATES = 256
SHARES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
#: Orders of the random router: its quality is their mean.
DRAWS = 16


@dataclass(frozen=True)
class Outcome:
    """Quality of a mix of tiers on a part."""

    auc: tuple[float, ...]  # of each label
    log_loss: float  # summed over labels, in nats


@dataclass(frozen=True)
class Mix:
    """A part of the examples, as both tiers score it."""

    requests: Requests
    label_nK: NDArray[np.float32]
    default_nK: Floats  # logits
    high_nK: Floats

    def serve(self, high_R: NDArray[np.bool_]) -> Outcome:
        """What comes of it when these requests are the high tier's."""
        logit_nK = np.where(high_R[self.requests.request_n][:, None], self.high_nK, self.default_nK)
        aucs = tuple(auc(self.label_nK[:, k], logit_nK[:, k]) for k in range(logit_nK.shape[1]))
        return Outcome(aucs, float(losses(self.label_nK, logit_nK).mean()))

    def by_order(self, order_R: NDArray[np.int64]) -> list[Outcome]:
        """At every budget of SHARES, the first of the order going to the high tier."""
        found = []
        for share in SHARES:
            high_R = np.zeros(len(order_R), np.bool_)
            high_R[order_R[: round(share * len(order_R))]] = True
            found.append(self.serve(high_R))
        return found

    def by_value(self, value_R: NDArray[np.floating]) -> list[Outcome]:
        """The highest values first; of equal ones any, but always the same."""
        any_R = np.random.default_rng(0).permutation(len(value_R))
        return self.by_order(any_R[np.argsort(-value_R[any_R], kind="stable")])

    def at_random(self) -> list[Outcome]:
        """The mean over DRAWS orders."""
        random = np.random.default_rng(0)
        drawn = [self.by_order(random.permutation(len(self.requests.first_R))) for _ in range(DRAWS)]
        return [
            Outcome(
                tuple(np.mean([o.auc for o in at], axis=0).tolist()),
                float(np.mean([o.log_loss for o in at])),
            )
            for at in zip(*drawn, strict=True)
        ]


def mean_flops(default: TierManifest, high: TierManifest) -> list[float]:
    """FLOPs of a request at every budget of SHARES."""
    of_default, of_high = (tier.flops_user + CANDIDATES * tier.flops_item for tier in (default, high))
    return [of_default + share * (of_high - of_default) for share in SHARES]


def points(curve: Sequence[Outcome], flops: Sequence[float]) -> list[dict[str, object]]:
    """A curve as JSON."""
    return [
        {"share": share, "flops": f, "auc": list(at.auc), "log_loss": at.log_loss}
        for share, f, at in zip(SHARES, flops, curve, strict=True)
    ]
