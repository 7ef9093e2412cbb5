"""What a recipe's budget leaves for the packed matrices, and what is said where it is too little."""

from math import prod

from triton_ads.compression.llama_config import LlamaConfig
from triton_ads.compression.recipe import CompressionRecipe


def weight_count(config: LlamaConfig) -> int:
    """Weights of all matrices, the head's among them."""
    return sum(prod(shape) for shape in config.linear_layers().values())


def other_bytes(config: LlamaConfig) -> int:
    """Bytes of a packed model that are no matrices: BF16 embeddings, float32 norms and rotary frequencies."""
    return 2 * config.vocabulary * config.hidden + 4 * config.hidden * len(config.norms()) + 2 * config.head_dim


def matrix_budget(recipe: CompressionRecipe, config: LlamaConfig) -> int | None:
    """Bytes that all packed matrices may take together; None without a budget."""
    budget = recipe.budget
    if budget is None:
        return None
    if budget.bits_per_weight is not None:
        return int(budget.bits_per_weight * weight_count(config) / 8)
    if budget.megabytes_per_token is not None:
        return int(budget.megabytes_per_token * 1e6)
    assert budget.megabytes is not None
    return int(budget.megabytes * 1e6) - other_bytes(config)


def possible(least: int, most: int, config: LlamaConfig) -> str:
    """A range of bytes of the matrices in all the ways in which a budget can be said."""
    weights, others = weight_count(config), other_bytes(config)
    return (
        f"{8 * least / weights:.3f} to {8 * most / weights:.3f} bits a weight, "
        f"{least / 1e6:.3f} to {most / 1e6:.3f} megabytes a token or "
        f"{(least + others) / 1e6:.3f} to {(most + others) / 1e6:.3f} megabytes are possible"
    )
