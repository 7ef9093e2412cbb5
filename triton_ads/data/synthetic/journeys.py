"""Journeys: what every user of a world meets, and what comes of it, with the chances that nobody sees.

Users do not know each other, so they are made in chunks, and a world is the same whatever the chunks. Within a chunk
all users take their first step together, then all that have a second one, and so on.
"""

# Legend: n events, U users, c users of a chunk, G topics, s the two states of an interest.

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from triton_ads.data.synthetic import world
from triton_ads.data.synthetic.beliefs import expected, fade, learn, outcome_chances
from triton_ads.data.synthetic.draws import Purpose, uniform
from triton_ads.data.synthetic.world import Items, Size, Users, interest_share

#: Users made at a time: bounds the memory beside the events themselves.
CHUNK = 16384


@dataclass(frozen=True)
class Journeys:
    """All events, user by user, oldest first within a user. `[n]` each."""

    time: NDArray[np.int64]  # unix seconds; rises within a user
    user: NDArray[np.int32]  # position in Users
    item: NDArray[np.int32]  # position in Items
    placement: NDArray[np.int8]
    clicked: NDArray[np.bool_]  # conversions are clicks as well
    converted: NDArray[np.bool_]
    deeply: NDArray[np.bool_]
    interested: NDArray[np.bool_]  # the hidden state of the ad's topic
    hard: NDArray[np.bool_]  # see world.HARD_HISTORY
    # Chances of `converted`, and of `deeply` with it: the best prediction without any journey, the best one from all
    # that can be seen, and by the hidden state.
    cold_cvr: NDArray[np.float32]
    cold_dcvr: NDArray[np.float32]
    cvr: NDArray[np.float32]
    dcvr: NDArray[np.float32]
    hidden_cvr: NDArray[np.float32]
    hidden_dcvr: NDArray[np.float32]

    def by_time(self, ids_U: NDArray[np.int64]) -> "Journeys":
        """All events in the order of their time, those of the same second by the user's id."""
        order = np.lexsort((ids_U[self.user], self.time))
        return Journeys(*(getattr(self, f.name)[order] for f in fields(self)))


def journeys(size: Size, items: Items, users: Users, chunk: int = CHUNK) -> Journeys:
    """Every event of the world; the same for any `chunk`."""
    dtypes = {f.name: _DTYPES.get(f.name, np.float32) for f in fields(Journeys)}
    out = Journeys(**{name: np.zeros(size.events, dtype) for name, dtype in dtypes.items()})
    for start in range(0, size.users, chunk):
        _fill(out, size, items, users, start, min(start + chunk, size.users))
    return out


_DTYPES = {
    "time": np.int64, "user": np.int32, "item": np.int32, "placement": np.int8,
    "clicked": np.bool_, "converted": np.bool_, "deeply": np.bool_, "interested": np.bool_, "hard": np.bool_,
}  # fmt: skip


@dataclass(frozen=True)
class _Draws:
    """All uniform draws of the events of a chunk."""

    placement: NDArray[np.float64]
    repeat: NDArray[np.float64]
    repeated: NDArray[np.float64]
    item: NDArray[np.float64]
    interest: NDArray[np.float64]
    click: NDArray[np.float64]
    cvr: NDArray[np.float64]
    dcvr: NDArray[np.float64]


def _fill(out: Journeys, size: Size, items: Items, users: Users, start: int, end: int) -> None:
    """Write the events of the users [start, end)."""
    first_c, count_c = users.first_U[start:end], np.diff(users.first_U[start : end + 1])
    events = slice(int(first_c[0]), int(users.first_U[end]))
    user_n = np.repeat(np.arange(start, end), count_c)
    step_n = np.arange(events.start, events.stop) - users.first_U[user_n]
    draws = _Draws(*(uniform(size.seed, Purpose[f.name.upper()], user_n, step_n) for f in fields(_Draws)))
    out.user[events] = user_n
    out.time[events] = _times(size, users, user_n, step_n)
    out.placement[events] = _placements(size, out.time[events], draws.placement)
    out.hard[events] = users.member_U[user_n] & (step_n >= world.HARD_HISTORY)

    # Longest journeys first: those that take another step are always the first ones.
    longest = np.argsort(-count_c, kind="stable")
    first_c, count_c = first_c[longest], count_c[longest]
    state = _State.new(interest_share()[users.age_U[start:end][longest]], users.member_U[start:end][longest])
    for step in range(int(count_c[0]) if len(count_c) else 0):
        going = int(np.searchsorted(-count_c, -step, side="left"))
        _step(out, items, draws, state, step, first_c[:going] + step, events.start)


@dataclass(frozen=True)
class _State:
    """What each user of a chunk carries from step to step."""

    member_c: NDArray[np.bool_]
    share_cG: NDArray[np.float64]
    belief_cG: NDArray[np.float64]
    interested_cG: NDArray[np.bool_]
    when_cG: NDArray[np.float64]  # days since START at which both were last looked at; negative: never
    recent_cR: NDArray[np.int64]  # topics of the last ads, in turn

    @classmethod
    def new(cls, share_cG: NDArray[np.float64], member_c: NDArray[np.bool_]) -> "_State":
        shape = share_cG.shape
        recent = np.zeros((len(share_cG), world.RECENT), np.int64)
        return cls(member_c, share_cG, share_cG.copy(), np.zeros(shape, np.bool_), np.full(shape, -1.0), recent)


def _step(
    out: Journeys,
    items: Items,
    draws: _Draws,
    state: _State,
    step: int,
    at_n: NDArray[np.int64],
    chunk_first: int,
) -> None:
    """The next event of the first n users of the chunk, which lies at `at_n` of the events."""
    n, drawn_n = len(at_n), at_n - chunk_first
    row = np.arange(n)
    topic = np.full(n, -1)
    if step:
        known = min(step, world.RECENT)
        again = state.member_c[:n] & (draws.repeat[drawn_n] < world.REPEAT)
        topic[again] = state.recent_cR[row, (draws.repeated[drawn_n] * known).astype(np.int64)][again]
    item = items.draw(topic, draws.item[drawn_n])
    topic = items.topic_I[item]
    state.recent_cR[:n, step % world.RECENT] = topic

    now = (out.time[at_n] - world.START) / world.DAY
    days = now - state.when_cG[row, topic]
    met = state.when_cG[row, topic] >= 0
    share = state.share_cG[row, topic]
    belief = np.where(met, fade(state.belief_cG[row, topic], share, days), share)
    chance = np.where(met, fade(state.interested_cG[row, topic].astype(np.float64), share, days), share)
    interested = draws.interest[drawn_n] < chance

    cvr_ns, deep_ns = outcome_chances(
        out.placement[at_n].astype(np.int64),
        items.format_I[item],
        items.quality_I[item],
        items.advertiser_quality_I[item],
        share,
        now % 1 * 24,
    )
    s = interested.astype(np.int64)
    hidden_cvr, hidden_deep = cvr_ns[row, s], deep_ns[row, s]
    converted = draws.cvr[drawn_n] < hidden_cvr
    deeply = converted & (draws.dcvr[drawn_n] < hidden_deep)
    clicked = converted | (draws.click[drawn_n] < world.CLICK[s])

    out.item[at_n], out.interested[at_n] = item, interested
    out.clicked[at_n], out.converted[at_n], out.deeply[at_n] = clicked, converted, deeply
    out.cvr[at_n], out.dcvr[at_n] = expected(belief, cvr_ns), expected(belief, cvr_ns * deep_ns)
    out.cold_cvr[at_n], out.cold_dcvr[at_n] = expected(share, cvr_ns), expected(share, cvr_ns * deep_ns)
    out.hidden_cvr[at_n], out.hidden_dcvr[at_n] = hidden_cvr, hidden_cvr * hidden_deep
    state.belief_cG[row, topic] = learn(belief, cvr_ns, deep_ns, clicked, converted, deeply)
    state.interested_cG[row, topic], state.when_cG[row, topic] = interested, now


def _times(size: Size, users: Users, user_n: NDArray[np.int64], step_n: NDArray[np.int64]) -> NDArray[np.int64]:
    """Seconds, uniform over each user's days, rising by at least one within a user."""
    begins, until = users.from_U[user_n], users.until_U[user_n]
    days = begins + uniform(size.seed, Purpose.TIME, user_n, step_n) * (until - begins)
    second = world.START + (days * world.DAY).astype(np.int64)
    second = second[np.lexsort((second, user_n))]
    # max over earlier steps i of (second_i - i), plus the own step. Users are kept apart by an offset that exceeds all.
    apart = (user_n - user_n[0] if len(user_n) else user_n) * (2 * (size.days + 1) * world.DAY + size.events)
    return np.maximum.accumulate(second - step_n + apart) - apart + step_n


def _placements(size: Size, time_n: NDArray[np.int64], uniform_n: NDArray[np.float64]) -> NDArray[np.int8]:
    elapsed = ((time_n - world.START) / (size.days * world.DAY))[:, None]
    first, last = np.cumsum(world.PLACEMENT_SHARES, axis=1)
    bounds_nP = first + (last - first) * elapsed
    return (uniform_n[:, None] >= bounds_nP[:, :-1]).sum(axis=1).astype(np.int8)
