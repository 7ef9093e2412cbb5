"""The recipe: what a ranker reads, learns and is allowed to cost. One YAML file, validated, hashed.

A recipe is read by both sides: the build trains and exports what it says, the server enforces the limits it sets.
Ids live in *tables*. A table is an id space and the width of its vectors; features and sequence fields that name
the same table share its vectors. All tables of a tier are stored as one physical table, so that a side of the model
needs one gather.

    raw ids  --(vocabulary or hash)-->  rows of a table  --(offsets)-->  rows of the physical table

Features are read in the order in which they are declared; `columns` gives that order, and it is the wire's order.
"""

from triton_ads.recipe.base import RecipeError
from triton_ads.recipe.data import Data
from triton_ads.recipe.inputs import Column, Sequence, Side
from triton_ads.recipe.load import load_recipe, parse_recipe, recipe_schema
from triton_ads.recipe.model import Training
from triton_ads.recipe.recipe import Recipe

__all__ = [
    "Column",
    "Data",
    "Recipe",
    "RecipeError",
    "Sequence",
    "Side",
    "Training",
    "load_recipe",
    "parse_recipe",
    "recipe_schema",
]
