"""The tables of docs/models.md: what the tiers of a recipe cost, and the settings of every model.

python -m triton_ads.models.tables build/recipes/movielens.yaml
"""

import sys
from pathlib import Path
from typing import Any

from triton_ads.models import HyFormerConfig, WukongConfig
from triton_ads.models.config import ModelConfig
from triton_ads.models.cost import model_cost
from triton_ads.recipe import Recipe, load_recipe


def cost_table(recipe: Recipe, tier: str) -> str:
    """The cost of a tier, part by part; parts that cost nothing are left out."""
    lines = [f"| `{recipe.tiers[tier].model}` | MFLOP a row | parameters |", "|---|--:|--:|"]
    for part, cost in model_cost(recipe, tier).items():
        if cost.flops or cost.parameters:
            lines.append(f"| {part} | {cost.flops / 1e6:.2f} | {cost.parameters:,} |")
    return "\n".join(lines) + "\n"


def settings_table(model: str, kind: type[ModelConfig]) -> str:
    """The settings of a model: default, what is allowed, meaning."""
    lines = [f"| `{model}` | default | allowed | meaning |", "|---|--:|---|---|"]
    for name, setting in kind.model_json_schema()["properties"].items():
        lines.append(f"| `{name}` | {setting['default']} | {_allowed(setting)} | {setting['description']} |")
    return "\n".join(lines) + "\n"


def _allowed(setting: dict[str, Any]) -> str:
    if "enum" in setting:
        return ", ".join(f"`{value}`" for value in setting["enum"])
    lowest = f"above {setting['exclusiveMinimum']:g}" if "exclusiveMinimum" in setting else f"{setting['minimum']}"
    return f"{lowest} to {setting['maximum']:g}"


if __name__ == "__main__":
    for_recipe = load_recipe(Path(sys.argv[1]))
    print("\n".join(cost_table(for_recipe, tier) for tier in for_recipe.tiers))
    print(settings_table("hyformer", HyFormerConfig))
    print(settings_table("wukong", WukongConfig), end="")
