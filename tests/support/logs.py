"""A small log with planted structure: quick to train on, and what can be learned from it is known."""

import numpy as np

from triton_ads.data.log import Log
from triton_ads.recipe import Recipe, parse_recipe

USERS, ITEMS, EVENTS, NOISE = 40, 30, 6000, 0.1


def planted_log() -> Log:
    """A user of an even id likes items of an even id, others those of an odd id; 10 % of the labels are turned."""
    random = np.random.default_rng(0)
    user = random.integers(0, USERS, EVENTS).astype(np.int32)
    item = random.integers(0, ITEMS, EVENTS).astype(np.int32)
    cvr = ((user % 2 == item % 2) ^ (random.random(EVENTS) < NOISE)).astype(np.float32)
    ids = {"user": np.arange(USERS) + 100, "item": np.arange(ITEMS) + 1000}
    return Log(
        user_ids=ids["user"],
        item_ids=ids["item"],
        titles={i: f"item {i}" for i in ids["item"].tolist()},
        time=np.sort(random.integers(10**9, 10**9 + 10**6, EVENTS)),
        user=user,
        item=item,
        labels={"cvr": cvr},
        user_columns={"user_id": ids["user"][:, None]},
        item_columns={"item_id": ids["item"][:, None]},
        context_columns={"place": random.integers(1, 4, (EVENTS, 1))},
        sequences={"liked": cvr > 0},
        event_fields={"item_id": ids["item"][item]},
    )


def planted_recipe() -> Recipe:
    tables = {"user": 16, "item": 16, "place": 8, "gap": 8}
    return parse_recipe(
        {
            "name": "planted",
            "data": {"source": "movielens-100k"},
            "tables": {name: {"kind": "vocabulary", "width": width} for name, width in tables.items()},
            "features": [
                {"name": "user_id", "side": "user", "table": "user"},
                {"name": "activity", "side": "user", "kind": "dense"},
                {"name": "place", "side": "context", "table": "place"},
                {"name": "item_id", "side": "item", "table": "item"},
                {"name": "popularity", "side": "item", "kind": "dense"},
            ],
            "sequences": [
                {
                    "name": "liked",
                    "length": 6,
                    "fields": [{"name": "item_id", "table": "item"}, {"name": "gap", "table": "gap"}],
                }
            ],
            "scenario": {"feature": "place", "default": 1},
            "labels": ["cvr"],
            "tiers": {
                "standard": {"model": "wukong", "config": {"token_dim": 16, "layers": 1}},
                "high": {"model": "hyformer", "config": {"token_dim": 16, "tokens": 3, "mixer_hidden": 32}},
            },
            "training": {"batch_size": 128, "epochs": 6, "learning_rate_dense": 0.01, "learning_rate_sparse": 0.1},
            "router": {"default_tier": "standard", "high_tier": "high"},
        }
    )
