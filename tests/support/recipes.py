"""Small recipes for tests."""

from typing import Any

from triton_ads.recipe import Recipe, parse_recipe


def tiny_recipe(**changes: Any) -> Recipe:
    """Two id columns a side, one multi-valued; two sequences of two fields and one; one hashed table."""
    return parse_recipe(
        {
            "name": "tiny",
            "data": {"source": "movielens-100k"},
            "tables": {
                "user": {"kind": "vocabulary", "width": 8},
                "item": {"kind": "vocabulary", "width": 8},
                "place": {"kind": "vocabulary", "width": 4},
                "zip": {"kind": "hashed", "width": 4, "rows": 16},
            },
            "features": [
                {"name": "user_id", "side": "user", "table": "user"},
                {"name": "zip_code", "side": "user", "table": "zip"},
                {"name": "activity", "side": "user", "kind": "dense"},
                {"name": "place", "side": "context", "table": "place"},
                {"name": "item_id", "side": "item", "table": "item"},
                {"name": "similar", "side": "item", "kind": "ids", "table": "item", "length": 2},
            ],
            "sequences": [
                {
                    "name": "seen",
                    "length": 3,
                    "fields": [{"name": "item_id", "table": "item"}, {"name": "zip_code", "table": "zip"}],
                },
                {"name": "bought", "length": 2, "fields": [{"name": "item_id", "table": "item"}]},
            ],
            "scenario": {"feature": "place", "default": 1},
            "labels": ["cvr"],
            "tiers": {"standard": {"model": "wukong"}},
            "router": {"default_tier": "standard"},
            **changes,
        }
    )
