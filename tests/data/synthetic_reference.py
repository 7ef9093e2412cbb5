"""The synthetic world once more, event by event in plain Python: what the vectorised one must equal."""

import math
from statistics import NormalDist
from typing import Any

from triton_ads.data.synthetic import world
from triton_ads.data.synthetic.draws import Purpose
from triton_ads.data.synthetic.world import Size

MASK = 2**64 - 1
Event = dict[str, Any]


def uniform(seed: int, purpose: Purpose, who: int, which: int = 0) -> float:
    state = mix(seed)
    for part in (int(purpose), who, which):
        state = mix(state ^ part)
    return (state >> 11) * 2.0**-53


def mix(value: int) -> int:
    """The output function of splitmix64."""
    value = (value + 0x9E3779B97F4A7C15) & MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def normal(u: float) -> float:
    return NormalDist().inv_cdf(min(max(u, 2.0**-53), 1 - 2.0**-53))


def logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def ads(size: Size) -> list[dict[str, Any]]:
    """By popularity."""
    found = []
    for rank in range(size.items):
        advertiser = int(uniform(size.seed, Purpose.ITEM_ADVERTISER, rank) * max(1, size.items // 10))
        of_advertiser = world.ADVERTISER_STD * normal(uniform(size.seed, Purpose.ADVERTISER_QUALITY, advertiser))
        rho = world.QUALITY_POPULARITY
        popularity = normal((size.items - rank - 0.5) / size.items)
        own = rho * popularity + math.sqrt(1 - rho**2) * normal(uniform(size.seed, Purpose.ITEM_QUALITY, rank))
        found.append(
            {
                "id": rank + 1,
                "topic": int(uniform(size.seed, Purpose.ITEM_TOPIC, rank) * len(world.TOPICS)),
                "advertiser": advertiser,
                "format": int(uniform(size.seed, Purpose.ITEM_FORMAT, rank) * len(world.FORMATS)),
                "quality": world.QUALITY_STD * own + of_advertiser,
                "advertiser_quality": of_advertiser,
                "weight": (rank + 1) ** -world.ZIPF,
            }
        )
    return found


def choose(among: list[dict[str, Any]], u: float) -> dict[str, Any]:
    """By weight."""
    left = u * sum(ad["weight"] for ad in among)
    for ad in among:
        left -= ad["weight"]
        if left < 0:
            return ad
    return among[-1]


def people(size: Size) -> list[dict[str, Any]]:
    users = []
    for u in range(size.users):
        member = math.floor((u + 1) * size.members) > math.floor(u * size.members)
        arrival = uniform(size.seed, Purpose.USER_ARRIVAL, u)
        begins = arrival * size.days / 3 if member else arrival * max(size.days - world.VISIT_DAYS, 0.0)
        users.append(
            {
                "member": member,
                "age": int(uniform(size.seed, Purpose.USER_AGE, u) * len(world.AGE_BANDS)),
                "weight": 0.25 - math.log1p(-uniform(size.seed, Purpose.USER_WEIGHT, u)),
                "from": begins,
                "until": size.days if member else min(begins + world.VISIT_DAYS, size.days),
            }
        )
    total, before = 0.0, 0
    for user in users:
        same = sum(other["weight"] for other in users if other["member"] == user["member"])
        share = size.member_events if user["member"] else 1 - size.member_events
        user["expected"] = user["weight"] * size.events * share / same
    everything = sum(user["expected"] for user in users)
    for user in users:
        total += user["expected"]
        upto = round(total / everything * size.events)
        user["events"], before = upto - before, upto
    return users


def reference(size: Size) -> list[Event]:
    """All events in the order of time, then user."""
    catalogue = ads(size)
    # Ads of a topic by popularity, topics in turn.
    catalogue = sorted(catalogue, key=lambda ad: (ad["topic"], ad["id"]))
    events = [e for u, user in enumerate(people(size)) for e in journey(size, catalogue, u, user)]
    return sorted(events, key=lambda e: (e["time"], e["user_id"]))


def journey(size: Size, catalogue: list[dict[str, Any]], u: int, user: dict[str, Any]) -> list[Event]:
    length = user["until"] - user["from"]
    drawn = sorted(
        world.START + int((user["from"] + uniform(size.seed, Purpose.TIME, u, j) * length) * world.DAY)
        for j in range(user["events"])
    )
    events: list[Event] = []
    known: dict[int, tuple[float, int, float]] = {}  # topic -> belief, hidden state, days
    for j in range(user["events"]):

        def draw(purpose: Purpose, j: int = j) -> float:
            return uniform(size.seed, purpose, u, j)

        time = drawn[j] if not events else max(drawn[j], events[-1]["time"] + 1)
        days = (time - world.START) / world.DAY
        among = catalogue
        if events and user["member"] and draw(Purpose.REPEAT) < world.REPEAT:
            # A list of RECENT places, filled in turn.
            places = min(j, world.RECENT)
            at = int(draw(Purpose.REPEATED) * places)
            latest = max(i for i in range(j) if i % world.RECENT == at)
            among = [ad for ad in catalogue if ad["topic"] == events[latest]["topic"]]
        ad = choose(among, draw(Purpose.ITEM))

        u_placement, upto, placement = draw(Purpose.PLACEMENT), 0.0, 0
        elapsed = (time - world.START) / (size.days * world.DAY)
        for p in range(len(world.PLACEMENTS)):
            first, last = world.PLACEMENT_SHARES[:, p]
            upto, placement = upto + first + (last - first) * elapsed, p
            if u_placement < upto:
                break

        wave = math.sin(2 * math.pi * (user["age"] / len(world.AGE_BANDS) + ad["topic"] * 0.381966))
        share = world.INTERESTS + world.INTERESTS_SPREAD * wave
        belief = chance = share
        if ad["topic"] in known:
            belief, chance, then = known[ad["topic"]]
            faded = math.exp(-(days - then) / world.INTEREST_DAYS)
            belief, chance = share + (belief - share) * faded, share + (chance - share) * faded
        s = int(draw(Purpose.INTEREST) < chance)

        other = world.PLACEMENT_BASE[placement] + world.PLACEMENT_QUALITY[placement] * ad["quality"]
        other += world.PLACEMENT_FORMAT[placement][ad["format"]]
        other += world.EVENING * math.cos(2 * math.pi * (days % 1 * 24 - world.EVENING_HOUR) / 24)
        deep = world.DEEP_BASE + world.DEEP_QUALITY * ad["advertiser_quality"]
        cvr = [logistic(other + world.PLACEMENT_INTEREST[placement] * (state - share)) for state in (0, 1)]
        deeply = [logistic(deep + world.DEEP_INTEREST * (state - share)) for state in (0, 1)]

        action = 1
        if draw(Purpose.CVR) < cvr[s]:
            action = 4 if draw(Purpose.DCVR) < deeply[s] else 3
        elif draw(Purpose.CLICK) < world.CLICK[s]:
            action = 2
        likelihood = [
            {
                1: (1 - cvr[i]) * (1 - world.CLICK[i]),
                2: (1 - cvr[i]) * world.CLICK[i],
                3: cvr[i] * (1 - deeply[i]),
                4: cvr[i] * deeply[i],
            }[action]
            for i in (0, 1)
        ]
        both = belief * likelihood[1] + (1 - belief) * likelihood[0]
        known[ad["topic"]] = belief * likelihood[1] / both, s, days
        events.append(
            {
                "time": time,
                "user_id": u + 1,
                "item_id": ad["id"],
                "topic": ad["topic"],
                "placement": placement,
                "action": action,
                "cold_cvr": share * cvr[1] + (1 - share) * cvr[0],
                "cold_dcvr": share * cvr[1] * deeply[1] + (1 - share) * cvr[0] * deeply[0],
                "cvr": belief * cvr[1] + (1 - belief) * cvr[0],
                "dcvr": belief * cvr[1] * deeply[1] + (1 - belief) * cvr[0] * deeply[0],
                "hidden_cvr": cvr[s],
                "hidden_dcvr": cvr[s] * deeply[s],
                "hard": float(user["member"] and j >= world.HARD_HISTORY),
            }
        )
    return events
