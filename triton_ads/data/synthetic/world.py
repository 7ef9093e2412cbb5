"""What is fixed in a synthetic world before anybody arrives: its constants, its ads and its people.

Everything here is planted. The constants are plausible, not measured on any service.
"""

# Legend: U users, I items (ads), G topics, P placements, A age bands, f formats.

from dataclasses import dataclass
from statistics import NormalDist
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.synthetic.draws import Purpose, uniform

DAY = 86400
#: The world begins on Monday, 1 June 2026, 0:00 UTC.
START = 1_780_272_000

TOPICS = (
    "travel", "shoes", "games", "music", "cars", "books", "garden", "phones", "films", "furniture", "beauty", "sport",
)  # fmt: skip
FORMATS = ("text", "image", "video")
AGE_BANDS = (18, 25, 35, 45, 55, 65)
PLACEMENTS = ("feed", "search", "story", "checkout")

#: Share of each placement on the first and on the last day; in between it moves evenly: stories take over the feed.
PLACEMENT_SHARES = np.array([[0.50, 0.25, 0.10, 0.15], [0.30, 0.20, 0.35, 0.15]])
#: Log-odds of a conversion at each placement of an average ad, whoever sees it.
PLACEMENT_BASE = np.array([-1.6, -0.9, -2.5, -1.4])
#: What an interest of the user in the ad's topic adds. At checkout it takes away: who has just bought does not want
#: the same again.
PLACEMENT_INTEREST = np.array([4.0, 5.5, 2.5, -3.0])
#: How much the ad's quality counts.
PLACEMENT_QUALITY = np.array([1.0, 0.4, 1.6, 1.0])
#: What the ad's format adds: text suits a search, video a story.
PLACEMENT_FORMAT = np.array([[-0.3, 0.2, 0.1], [0.6, 0.0, -0.6], [-0.8, 0.0, 0.8], [0.3, 0.0, -0.3]])
#: Log-odds are higher in the evening, by at most this.
EVENING, EVENING_HOUR = 0.2, 20
#: Log-odds that a conversion is a deep one: for an average advertiser, what its quality adds, what an interest adds.
DEEP_BASE, DEEP_QUALITY, DEEP_INTEREST = -0.6, 0.6, 1.2

#: Chance that an ad which does not convert is clicked: without and with an interest in its topic.
CLICK = np.array([0.05, 0.70])

#: Share of topics in which a user of no particular age is interested at a time, and its spread over age and topic.
INTERESTS, INTERESTS_SPREAD = 0.25, 0.15
#: Days in which what is known of an interest fades by a factor of e: interests come and go.
INTEREST_DAYS = 5.0

#: Weight of the ad at popularity rank r is r^-ZIPF; quality goes along with popularity, by this correlation.
ZIPF, QUALITY_POPULARITY = 0.8, 0.4
QUALITY_STD, ADVERTISER_STD = 0.4, 0.4
ITEMS_PER_ADVERTISER = 10
#: Chance that an ad for a member is of the topic of one of the last RECENT ads of the journey, rather than any popular
#: one. Visitors always get popular ones.
REPEAT, RECENT = 0.75, 8

#: A visitor's events fall into this many days; a member's go on to the end of the world.
VISIT_DAYS = 2.0
#: A request is hard when the user is a member and the journey has at least this many events.
HARD_HISTORY = 10


class Size(Protocol):
    """How large a world is; `recipe.data` of source `synthetic` is one."""

    @property
    def users(self) -> int: ...
    @property
    def items(self) -> int: ...
    @property
    def events(self) -> int: ...
    @property
    def days(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def members(self) -> float:
        """Share of the users who are members: long journeys. The others are visitors: short ones."""
        ...

    @property
    def member_events(self) -> float:
        """Share of the events that are members'."""
        ...


@dataclass(frozen=True)
class Items:
    """Ads, sorted by topic. Ids count by popularity: 1 is the most popular."""

    id_I: NDArray[np.int64]
    topic_I: NDArray[np.int64]
    advertiser_I: NDArray[np.int64]
    format_I: NDArray[np.int64]
    quality_I: NDArray[np.float64]  # of ad and advertiser together; mean 0
    advertiser_quality_I: NDArray[np.float64]
    #: Weights of exposure summed up in this order; ads of topic g lie in [first_G[g], first_G[g + 1]).
    cumulative_I: NDArray[np.float64]
    first_G: NDArray[np.int64]

    @classmethod
    def of(cls, size: Size) -> Self:
        rank = np.arange(size.items)
        topic = (uniform(size.seed, Purpose.ITEM_TOPIC, rank) * len(TOPICS)).astype(np.int64)
        rank = rank[np.argsort(topic, kind="stable")]
        topic = np.sort(topic)
        advertisers = max(1, size.items // ITEMS_PER_ADVERTISER)
        advertiser = (uniform(size.seed, Purpose.ITEM_ADVERTISER, rank) * advertisers).astype(np.int64)
        advertiser_quality = ADVERTISER_STD * normal(uniform(size.seed, Purpose.ADVERTISER_QUALITY, advertiser))
        # By rank, standardised: the most popular ads are the best ones, more or less.
        popularity = normal((size.items - rank - 0.5) / size.items)
        own = normal(uniform(size.seed, Purpose.ITEM_QUALITY, rank))
        own = QUALITY_POPULARITY * popularity + (1 - QUALITY_POPULARITY**2) ** 0.5 * own
        return cls(
            id_I=rank + 1,
            topic_I=topic,
            advertiser_I=advertiser,
            format_I=(uniform(size.seed, Purpose.ITEM_FORMAT, rank) * len(FORMATS)).astype(np.int64),
            quality_I=QUALITY_STD * own + advertiser_quality,
            advertiser_quality_I=advertiser_quality,
            cumulative_I=np.cumsum((rank + 1.0) ** -ZIPF),
            first_G=np.searchsorted(topic, np.arange(len(TOPICS) + 1)),
        )

    def draw(self, topic_n: NDArray[np.int64], uniform_n: NDArray[np.float64]) -> NDArray[np.int64]:
        """A position of an ad by popularity, of the given topic, or of any where the topic is negative.

        A topic that has no ad counts as any.
        """
        of_topic = (topic_n >= 0) & (self.first_G[topic_n] < self.first_G[topic_n + 1])
        first = np.where(of_topic, self.first_G[topic_n], 0)
        end = np.where(of_topic, self.first_G[topic_n + 1], len(self.id_I))
        below = np.where(first > 0, self.cumulative_I[first - 1], 0.0)
        target = below + uniform_n * (self.cumulative_I[end - 1] - below)
        # Rounding may reach the bounds.
        return np.clip(np.searchsorted(self.cumulative_I, target, side="right"), first, end - 1)


@dataclass(frozen=True)
class Users:
    """People. Ids count from 1."""

    age_U: NDArray[np.int64]  # position in AGE_BANDS
    member_U: NDArray[np.bool_]
    first_U: NDArray[np.int64]  # [U + 1] events of users before this one: those of u are [first_U[u], first_U[u + 1])
    from_U: NDArray[np.float64]  # days, when the journey may begin
    until_U: NDArray[np.float64]  # days, when it has ended

    @classmethod
    def of(cls, size: Size) -> Self:
        user = np.arange(size.users)
        # Every 1/members-th user, so that the share is what it should be in small worlds as well.
        member = np.floor((user + 1) * size.members) > np.floor(user * size.members)
        weight = 0.25 - np.log1p(-uniform(size.seed, Purpose.USER_WEIGHT, user))
        events = np.zeros(size.users)
        for group, share in ((member, size.member_events), (~member, 1 - size.member_events)):
            events[group] = weight[group] * (size.events * share / max(weight[group].sum(), 1e-300))
        arrival = uniform(size.seed, Purpose.USER_ARRIVAL, user)
        begins = np.where(member, arrival * size.days / 3, arrival * max(size.days - VISIT_DAYS, 0.0))
        total = np.cumsum(events)
        first = np.concatenate([[0], np.rint(total / total[-1] * size.events)]).astype(np.int64)
        return cls(
            age_U=(uniform(size.seed, Purpose.USER_AGE, user) * len(AGE_BANDS)).astype(np.int64),
            member_U=member,
            first_U=first,
            from_U=begins,
            until_U=np.where(member, float(size.days), np.minimum(begins + VISIT_DAYS, size.days)),
        )


def interest_share() -> NDArray[np.float64]:
    """float64 [A, G]: the share of users of an age who are interested in a topic at a time. The same in all worlds."""
    ages, topics = np.meshgrid(np.arange(len(AGE_BANDS)), np.arange(len(TOPICS)), indexing="ij")
    # Neighbouring ages are alike: a wave over the ages, which begins elsewhere for each topic.
    wave = np.sin(2 * np.pi * (ages / len(AGE_BANDS) + topics * 0.381966))
    return INTERESTS + INTERESTS_SPREAD * wave


def normal(uniform_n: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard normal values of uniform ones in [0, 1): by the inverse distribution, one by one.

    Only ads and advertisers need them. NumPy has no inverse normal distribution.
    """
    inverse = NormalDist().inv_cdf
    flat = np.clip(np.ravel(uniform_n), 2.0**-53, 1 - 2.0**-53)
    return np.array([inverse(u) for u in flat.tolist()]).reshape(np.shape(uniform_n))
