"""From a recipe to compressed matrices: patterns, masks, groups, codes, recovery, in this order.

Legend: N rows (outputs), K columns (inputs), S sequences, T tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from triton_ads.compression.allocate import BudgetError, Option, allocate
from triton_ads.compression.budget import matrix_budget
from triton_ads.compression.calibration import Calibration, calibrate
from triton_ads.compression.compressed_matrix import CompressedMatrix, Rounded, pruned_matrix
from triton_ads.compression.error_compensation import compensated, compensated_pruning
from triton_ads.compression.groups import LossOfSize, allocate_groups, matrix_bytes, tile_options, uniform_size
from triton_ads.compression.importance import importance
from triton_ads.compression.layer_importance import loss_increases
from triton_ads.compression.llama import Llama, linear_layers
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.compression.quantised import largest_of_four, round_to_nearest
from triton_ads.compression.recipe import CompressionRecipe, Rounding
from triton_ads.compression.recovery import recover
from triton_ads.compression.rounding import round_fitted
from triton_ads.progress import StageProgress

#: Tokens on which layers are measured: the differences are between runs on the same tokens, so few suffice.
_MEASURED_TOKENS = 1024


@dataclass(frozen=True)
class Compressed:
    """What a recipe made of a model.

    matrices:   by name, of all linear layers.
    increases:  measured loss increase in nats by matrix, of each pattern that its recipe offered, in place of the
                densest; empty where nothing was to choose.
    """

    matrices: Mapping[str, CompressedMatrix]
    increases: Mapping[str, Mapping[Pattern, float]]


class Compressor:
    """A model and what calibration text says of it; recipes are tried on it one after the other."""

    def __init__(self, model: Llama, ids_ST: NDArray[np.int64], train_ids_ST: NDArray[np.int64] | None = None) -> None:
        """Calibrate.

        Args:
            ids_ST: the text to calibrate on.
            train_ids_ST: the text for recovery training.
        """
        self.model = model
        self.calibration: Mapping[str, Calibration] = calibrate(model, ids_ST)
        self.weights = {name: layer.weight.numpy() for name, layer in linear_layers(model)}
        self._ids_ST, self._train_ids_ST = ids_ST, train_ids_ST
        self._increases: dict[object, dict[str, list[float]]] = {}
        self._last: tuple[CompressionRecipe, _Untrained] | None = None

    def compress(self, recipe: CompressionRecipe) -> Compressed:
        """Raises BudgetError where the budget cannot be met."""
        untrained = recipe.model_copy(update={"recovery": None})
        # A recipe is often tried without recovery training, then with it.
        if self._last is None or self._last[0] != untrained:
            self._last = None  # frees its memory before the next takes as much
            self._last = untrained, self._compress(untrained)
        rounded, increases = self._last[1].rounded, self._last[1].increases
        if recipe.recovery is None:
            return Compressed({name: one.matrix for name, one in rounded.items()}, increases)
        if self._train_ids_ST is None:
            raise ValueError("recovery training needs text to train on")
        return Compressed(recover(self.model, rounded, self._train_ids_ST, recipe.recovery), increases)

    def _compress(self, recipe: CompressionRecipe) -> "_Untrained":
        budget = matrix_budget(recipe, self.model.config)
        patterns, increases = self._patterns(recipe, budget)
        keep = {name: self._keep(recipe, name, pattern) for name, pattern in patterns.items()}
        if recipe.values is Values.INT4:
            return _Untrained(self._quantise(recipe, patterns, keep, budget), increases)
        return _Untrained(self._prune(recipe, patterns, keep), increases)

    def _keep(self, recipe: CompressionRecipe, name: str, pattern: Pattern) -> NDArray[np.bool_]:
        weight_NK = self.weights[name]
        if not pattern.sparse:
            return np.ones(weight_NK.shape, np.bool_)
        score_NK = importance(weight_NK, self.calibration[name], recipe.criterion, recipe.gradient_share)
        return largest_of_four(score_NK, pattern)

    def _patterns(
        self, recipe: CompressionRecipe, budget: int | None
    ) -> tuple[dict[str, Pattern], dict[str, dict[Pattern, float]]]:
        choices = {name: recipe.choices(name) for name in self.weights}
        if all(len(patterns) == 1 for patterns in choices.values()):
            return {name: patterns[0] for name, patterns in choices.items()}, {}
        assert budget is not None
        increases = self._measured(recipe, choices)
        items = [
            [
                Option(_uniform_bytes(recipe, pattern, self.weights[name]), increase)
                for pattern, increase in zip(patterns, increases[name], strict=True)
            ]
            for name, patterns in choices.items()
        ]
        taken = dict(zip(choices, allocate(items, budget), strict=True))
        return (
            {name: patterns[taken[name]] for name, patterns in choices.items()},
            {name: dict(zip(choices[name], increases[name], strict=True)) for name in choices},
        )

    def _measured(
        self, recipe: CompressionRecipe, choices: Mapping[str, tuple[Pattern, ...]]
    ) -> dict[str, list[float]]:
        """Layer importance; the same for all recipes that prune by the same criterion."""
        key = recipe.criterion, recipe.gradient_share, tuple(choices.items())
        if key not in self._increases:
            sequences = -(-_MEASURED_TOKENS // self._ids_ST.shape[1])
            self._increases[key] = loss_increases(
                self.model,
                choices,
                lambda name, pattern: np.where(self._keep(recipe, name, pattern), self.weights[name], np.float32(0)),
                self.calibration,
                self._ids_ST[:sequences],
            )
        return self._increases[key]

    def _quantise(
        self,
        recipe: CompressionRecipe,
        patterns: Mapping[str, Pattern],
        keep: Mapping[str, NDArray[np.bool_]],
        budget: int | None,
    ) -> dict[str, Rounded]:
        sizes = {name: self._uniform_sizes(recipe, name, pattern) for name, pattern in patterns.items()}
        uniform = sum(_uniform_bytes(recipe, pattern, self.weights[name]) for name, pattern in patterns.items())
        if recipe.groups.kind == "adaptive":
            options = {}
            with StageProgress("groups", len(patterns)) as progress:
                for name, pattern in patterns.items():
                    options[name] = tile_options(
                        pattern, _shape(self.weights[name]), self._loss_of_size(recipe, name, pattern, keep[name])
                    )
                    progress.advance(name)
            shapes = {name: (pattern, _shape(self.weights[name])) for name, pattern in patterns.items()}
            sizes = allocate_groups(shapes, options, uniform if budget is None else budget)
        elif budget is not None and uniform > budget:
            raise BudgetError(budget, uniform, uniform)
        rounded = {}
        with StageProgress("rounding", len(patterns)) as progress:
            for name, pattern in patterns.items():
                rounded[name] = self._round(recipe, name, pattern, sizes[name], keep[name])
                progress.advance(name)
        return rounded

    def _uniform_sizes(self, recipe: CompressionRecipe, name: str, pattern: Pattern) -> NDArray[np.uint16]:
        rows, columns = self.weights[name].shape
        return np.full(rows, uniform_size(pattern, columns, recipe.groups.size), np.uint16)

    def _loss_of_size(
        self, recipe: CompressionRecipe, name: str, pattern: Pattern, keep_NK: NDArray[np.bool_]
    ) -> LossOfSize:
        """The error of rounding alone: pruning costs the same at every group size. Error compensation is left out, it
        would take long; it makes all errors smaller alike."""
        pruned_NK = np.where(keep_NK, self.weights[name], np.float32(0))
        rounding = Rounding.NEAREST if recipe.rounding is Rounding.NEAREST else Rounding.FITTED
        plain = recipe.model_copy(update={"rounding": rounding})

        def loss_N(size: int) -> NDArray[np.float32]:
            size_N = np.full(len(pruned_NK), size, np.uint16)
            rounded_NK = self._round(plain, name, pattern, size_N, keep_NK).matrix.dequantised()
            return self.calibration[name].loss_increase_N(pruned_NK - rounded_NK)

        return loss_N

    def _round(
        self,
        recipe: CompressionRecipe,
        name: str,
        pattern: Pattern,
        size_N: NDArray[np.uint16],
        keep_NK: NDArray[np.bool_],
    ) -> Rounded:
        weight_NK, hessian_KK = self.weights[name], self.calibration[name].hessian_KK
        unrounded_NK = np.where(keep_NK, weight_NK, np.float32(0))
        if recipe.rounding is Rounding.NEAREST:
            matrix = round_to_nearest(weight_NK, pattern, size_N, keep_NK)
        elif recipe.rounding is Rounding.FITTED:
            matrix = round_fitted(weight_NK, pattern, size_N, keep_NK, np.diagonal(hessian_KK).copy())
        else:
            matrix, unrounded_NK = compensated(weight_NK, pattern, size_N, keep_NK, hessian_KK)
        return Rounded(matrix, keep_NK, unrounded_NK)

    def _prune(
        self, recipe: CompressionRecipe, patterns: Mapping[str, Pattern], keep: Mapping[str, NDArray[np.bool_]]
    ) -> dict[str, Rounded]:
        rounded = {}
        with StageProgress("pruning", len(patterns)) as progress:
            for name, pattern in patterns.items():
                weight_NK = np.where(keep[name], self.weights[name], np.float32(0))
                if pattern.sparse and recipe.rounding is Rounding.COMPENSATED:
                    weight_NK = compensated_pruning(self.weights[name], keep[name], self.calibration[name].hessian_KK)
                rounded[name] = Rounded(pruned_matrix(weight_NK, pattern), keep[name], weight_NK)
                progress.advance(name)
        return rounded


@dataclass(frozen=True)
class _Untrained:
    """Everything but recovery training."""

    rounded: dict[str, Rounded]
    increases: dict[str, dict[Pattern, float]]


def _uniform_bytes(recipe: CompressionRecipe, pattern: Pattern, weight_NK: NDArray[np.float32]) -> int:
    shape = _shape(weight_NK)
    size = uniform_size(pattern, shape[1], recipe.groups.size) if recipe.values is Values.INT4 else 0
    return matrix_bytes(pattern, recipe.values, shape, size)


def _shape(weight_NK: NDArray[np.float32]) -> tuple[int, int]:
    rows, columns = weight_NK.shape
    return rows, columns
