"""PyTorch rankers, row-wise, one file an architecture; own.py takes one from a file of its author's."""

from collections.abc import Sequence

from torch import nn

from triton_ads.models.config import read_config
from triton_ads.models.hyformer import HyFormer, HyFormerConfig
from triton_ads.models.own import OwnModel, own_model
from triton_ads.models.own_file import OwnModelError
from triton_ads.models.wukong import Wukong, WukongConfig
from triton_ads.recipe import Recipe, RecipeError

__all__ = ["HyFormer", "HyFormerConfig", "OwnModel", "OwnModelError", "Wukong", "WukongConfig", "build_model"]


def build_model(
    recipe: Recipe, tier: str, table_rows: dict[str, int], scenario_rows: Sequence[int] | None = None
) -> nn.Module:
    """The model of a tier, untrained.

    Its forward takes M rows, each of one user and one item, and returns logits float32 [M, K], K labels:

        user_ids      int64 [M, Fu + Fc]      recipe.id_columns("user", "context")
        item_ids      int64 [M, Fi]           recipe.id_columns("item")
        user_dense    float32 [M, Du + Dc]    recipe.dense_columns("user", "context")
        sequence_ids  int64 [M, L]            sequence by sequence, event by event, field by field; PAD at the end
        item_dense    float32 [M, Di]         recipe.dense_columns("item")

    An id is a row of its own table (PAD 0, OOV 1, real ids from 2); any other is answered as OOV. The last three are
    None where the recipe has no such column.

    Args:
        recipe: features, heads and the tier's config.
        tier: one of `recipe.tiers`.
        table_rows: rows of each table, PAD and OOV included (`Tables.table_rows`).
        scenario_rows: for `heads.by: scenarios`, the row of each of `heads.scenarios`. May be left out where it
            follows from the recipe: a hashed table, or a vocabulary of just these scenarios.

    Raises:
        RecipeError: no such tier, or its config is wrong.
        OwnModelError: a model of one's own that fails, or returns something else than logits.
        ValueError: `table_rows` or `scenario_rows` does not fit the recipe.
    """
    if tier not in recipe.tiers:
        raise RecipeError(f"tiers: {tier!r} is not known; allowed: {', '.join(recipe.tiers)}")
    settings, where = recipe.tiers[tier], f"tiers.{tier}.config"
    if settings.own:
        return own_model(recipe, tier, table_rows)
    if settings.model == "hyformer":
        config = read_config(HyFormerConfig, settings.config, where)
        return HyFormer(recipe, config, table_rows, scenario_rows, where)
    return Wukong(recipe, read_config(WukongConfig, settings.config, where), table_rows, scenario_rows, where)
