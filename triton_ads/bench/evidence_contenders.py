"""What `bench evidence` trains: the recipe as it is, and with one thing taken away or added at a time."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from triton_ads.recipe import Recipe, parse_recipe

LR, FM = "LR", "FM"
STANDARD, HIGH = "standard", "high"
WITHOUT_JOURNEY, WITHOUT_EPNET, TWO_LAYERS = "without journeys", "without EPNet", "two layers"

Change = Callable[[dict[str, Any], str], None]


@dataclass(frozen=True)
class Contender:
    """A tier of the recipe, changed or not."""

    tier: str
    change: str | None = None

    @property
    def name(self) -> str:
        return f"{self.tier} {self.change}" if self.change else self.tier

    def recipe(self, recipe: Recipe) -> Recipe:
        """The recipe with the change. Examples of the one are examples of the other."""
        document = copy.deepcopy(recipe.model_dump(mode="json"))
        if self.change is not None:
            _CHANGES[self.change](document, self.tier)
        return parse_recipe(document)


def _without_journeys(document: dict[str, Any], tier: str) -> None:
    """As many tokens as before: HyFormer's width must stay a multiple of their number."""
    sequences = len(document["sequences"])
    document["sequences"] = []
    for settings in document["tiers"].values():
        if settings["model"] == "hyformer":
            settings["config"]["tokens"] += sequences


def _without_epnet(document: dict[str, Any], tier: str) -> None:
    """HyFormer has no EPNet where there is no scenario. The placement stays a feature like any other."""
    document["scenario"] = None


def _two_layers(document: dict[str, Any], tier: str) -> None:
    document["tiers"][tier]["config"]["layers"] = 2


_CHANGES: dict[str, Change] = {
    WITHOUT_JOURNEY: _without_journeys,
    WITHOUT_EPNET: _without_epnet,
    TWO_LAYERS: _two_layers,
}

CONTENDERS = (
    Contender(STANDARD, WITHOUT_JOURNEY),
    Contender(STANDARD),
    Contender(HIGH, WITHOUT_JOURNEY),
    Contender(HIGH, WITHOUT_EPNET),
    Contender(HIGH),
    Contender(HIGH, TWO_LAYERS),
)
