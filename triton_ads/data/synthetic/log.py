"""A synthetic world as a Log."""

from pathlib import Path

import numpy as np

from triton_ads.data.log import Log
from triton_ads.data.synthetic import world
from triton_ads.data.synthetic.journeys import journeys
from triton_ads.data.synthetic.world import Items, Size, Users
from triton_ads.features.ids import raw_id
from triton_ads.recipe import Recipe
from triton_ads.recipe.data import Synthetic

#: Raw ids of the event field `action`.
SHOWN, CLICKED, CONVERTED, DEEPLY = 1, 2, 3, 4


def read_log(recipe: Recipe, downloads: Path) -> Log:
    """The world of the recipe, as `triton_ads.data.sources` asks for it; nothing is downloaded."""
    assert isinstance(recipe.data, Synthetic)
    return read(recipe.data)


def read(size: Size) -> Log:
    """The log of a world.

    Labels: `cvr`, a conversion; `dcvr`, a deep one, which is one of those.
    User columns: `user_id`, `age_band` (its youngest age). Context: `placement` (feed, search, story, checkout),
    `hour` (0 to 23, UTC). Item: `item_id`, `topic`, `advertiser`, `format`.
    Sequences: `recent`, all events; `clicks`, those clicked; `conversions`, those of `cvr`. Event fields: `item_id`,
    `topic`, `placement`, `action` (1 shown, 2 clicked, 3 converted, 4 deeply).
    Truth: `cold_cvr` and `cold_dcvr`, the best predictions for a user without a journey; `cvr` and `dcvr`, the best
    predictions that the user's whole earlier journey allows; `hidden_cvr` and `hidden_dcvr`, the chances by which the
    labels were drawn, which depend on what nobody sees; `hard`, 1 for events of members that follow on at least
    `world.HARD_HISTORY` others.
    """
    items, users = Items.of(size), Users.of(size)
    user_ids = np.arange(1, size.users + 1)
    found = journeys(size, items, users).by_time(user_ids)
    # Positions of a log's items are those of their sorted ids; the world's go by topic.
    by_id = np.argsort(items.id_I)
    topic, advertiser, form = items.topic_I[by_id], items.advertiser_I[by_id], items.format_I[by_id]
    item = (items.id_I[found.item] - 1).astype(np.int32)
    topic_ids, placement_ids = _texts(world.TOPICS), _texts(world.PLACEMENTS)
    placement = placement_ids[found.placement]
    return Log(
        user_ids=user_ids,
        item_ids=items.id_I[by_id],
        titles={i: f"{world.TOPICS[t]} {i}" for i, t in zip(items.id_I[by_id].tolist(), topic.tolist(), strict=True)},
        time=found.time,
        user=found.user,
        item=item,
        labels={"cvr": found.converted.astype(np.float32), "dcvr": found.deeply.astype(np.float32)},
        user_columns={
            "user_id": user_ids[:, None],
            "age_band": np.array(world.AGE_BANDS)[users.age_U][:, None],
        },
        item_columns={
            "item_id": items.id_I[by_id][:, None],
            "topic": topic_ids[topic][:, None],
            "advertiser": (advertiser + 1)[:, None],
            "format": _texts(world.FORMATS)[form][:, None],
        },
        context_columns={"placement": placement[:, None], "hour": (found.time // 3600 % 24)[:, None]},
        sequences={
            "recent": np.ones(size.events, dtype=np.bool_),
            "clicks": found.clicked,
            "conversions": found.converted,
        },
        event_fields={
            "item_id": items.id_I[found.item],
            "topic": topic_ids[topic[item]],
            "placement": placement,
            "action": SHOWN + found.clicked.astype(np.int64) + found.converted + found.deeply,
        },
        truth={
            "cold_cvr": found.cold_cvr,
            "cold_dcvr": found.cold_dcvr,
            "cvr": found.cvr,
            "dcvr": found.dcvr,
            "hidden_cvr": found.hidden_cvr,
            "hidden_dcvr": found.hidden_dcvr,
            "hard": found.hard.astype(np.float32),
        },
    )


def _texts(values: tuple[str, ...]) -> np.ndarray:
    return np.array([raw_id(value) for value in values], dtype=np.int64)
