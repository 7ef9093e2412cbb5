"""What a journey tells about an interest: the exact filter of the world's hidden state.

A user is interested in a topic or not, s in {1, 0}; which one is hidden and changes by itself at any time, so that in
the long run the share of interested users is m. Only an ad of the topic tells anything of it:

    between events    b <- m + (b - m) exp(-days / INTEREST_DAYS)
    after an outcome  b <- b P(outcome | s = 1) / (b P(outcome | s = 1) + (1 - b) P(outcome | s = 0))

Topics and users are independent, and which ad is shown depends on the journey only. So b = P(s = 1 | all that was
seen), and b P(y | 1) + (1 - b) P(y | 0) is the best prediction that anything could make from what can be seen.
(The forward algorithm of a hidden Markov model: Rabiner 1989, equation 20, for two states in continuous time.)
"""

# Legend: n events of different users, s the two states, 0 and 1.

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.synthetic import world

Floats = NDArray[np.float64]


def fade(belief_n: Floats, share_n: Floats, days_n: Floats) -> Floats:
    """The belief after some days in which nothing was seen. With a belief of 0 or 1: where the state itself goes."""
    return share_n + (belief_n - share_n) * np.exp(-days_n / world.INTEREST_DAYS)


def outcome_chances(
    placement_n: NDArray[np.int64],
    format_n: NDArray[np.int64],
    quality_n: Floats,
    advertiser_quality_n: Floats,
    share_n: Floats,
    hour_n: Floats,
) -> tuple[Floats, Floats]:
    """Chance of a conversion, and of its being deep, in both states: float64 [n, s] each."""
    other = (
        world.PLACEMENT_BASE[placement_n]
        + world.PLACEMENT_QUALITY[placement_n] * quality_n
        + world.PLACEMENT_FORMAT[placement_n, format_n]
        + world.EVENING * np.cos(2 * np.pi * (hour_n - world.EVENING_HOUR) / 24)
    )
    # Less the share, so that what most are interested in converts no more for those who are not.
    state_ns = np.stack([-share_n, 1 - share_n], axis=1)
    cvr_ns = logistic(other[:, None] + world.PLACEMENT_INTEREST[placement_n][:, None] * state_ns)
    deep = world.DEEP_BASE + world.DEEP_QUALITY * advertiser_quality_n
    return cvr_ns, logistic(deep[:, None] + world.DEEP_INTEREST * state_ns)


def learn(
    belief_n: Floats,
    cvr_ns: Floats,
    deep_ns: Floats,
    clicked_n: NDArray[np.bool_],
    converted_n: NDArray[np.bool_],
    deeply_n: NDArray[np.bool_],
) -> Floats:
    """The belief once the outcome is known: nothing, a click, a conversion, or a deep one."""
    converts_ns = np.where(deeply_n[:, None], deep_ns, 1 - deep_ns) * cvr_ns
    not_ns = np.where(clicked_n[:, None], world.CLICK, 1 - world.CLICK) * (1 - cvr_ns)
    likelihood_ns: Floats = np.where(converted_n[:, None], converts_ns, not_ns)
    interested_n = belief_n * likelihood_ns[:, 1]
    return interested_n / (interested_n + (1 - belief_n) * likelihood_ns[:, 0])


def expected(belief_n: Floats, chance_ns: Floats) -> Floats:
    return chance_ns[:, 0] + belief_n * (chance_ns[:, 1] - chance_ns[:, 0])


def logistic(x: Floats) -> Floats:
    chance_n: Floats = 1 / (1 + np.exp(-x))
    return chance_n
