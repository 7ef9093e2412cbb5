"""The split of a recipe's models before anything is built: what would be shared does not depend on the weights."""

from pathlib import Path

from rich.console import Console

from triton_ads.export.tier import SIDES, Probability
from triton_ads.inspection.drawing import picture_of, show_drawing
from triton_ads.inspection.split import SplitDocument, show_report
from triton_ads.models import build_model
from triton_ads.models.example import example_inputs
from triton_ads.recipe import RecipeError, load_recipe
from triton_ads.split import split
from triton_ads.split.report import report

_TABLE_ROWS = 1000  # of a vocabulary that is not known yet
_ROWS = 4


def show_untrained(file: Path, tier: str | None, picture: Path | None, console: Console) -> None:
    """Tables and drawings of the split of every tier, or of one.

    Raises:
        RecipeError: the recipe is wrong, or has no such tier.
        SplitError: a model that cannot be split.
    """
    recipe = load_recipe(file)
    if tier is not None and tier not in recipe.tiers:
        raise RecipeError(f"{file}: tier {tier!r} is not known; tiers: {', '.join(recipe.tiers)}")
    rows_of = {name: table.rows + 2 if table.rows else _TABLE_ROWS for name, table in recipe.tables.items()}
    inputs = example_inputs(recipe, rows_of, _ROWS)
    for name in [tier] if tier else recipe.tiers:
        model = Probability(build_model(recipe, name, rows_of)).eval()
        counted = SplitDocument.model_validate(report(split(model, inputs, SIDES), inputs).as_dict())
        show_report(name, counted, console)
        show_drawing(f"{recipe.name} {name}", counted, console, picture_of(picture, name, alone=tier is not None))
