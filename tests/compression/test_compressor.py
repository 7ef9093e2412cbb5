"""Recipes on a small random decoder: budgets kept, sizes as packed, the same answer twice."""

from typing import Any

import numpy as np
import pytest

from tests.support.random_llama import config_of, random_checkpoint
from triton_ads.compression.allocate import BudgetError
from triton_ads.compression.budget import matrix_budget, other_bytes, weight_count
from triton_ads.compression.compress import packed_model
from triton_ads.compression.compressed_matrix import packed
from triton_ads.compression.compressor import Compressed, Compressor
from triton_ads.compression.llama import build_llama
from triton_ads.compression.packing import dequantised
from triton_ads.compression.patterns import Pattern
from triton_ads.compression.quantised import QuantisedMatrix
from triton_ads.compression.recipe import parse_compression_recipe
from triton_ads.compression.report import compression_report

CHECKPOINT = random_checkpoint(config_of(hidden=64, intermediate=256, layers=3))
IDS_ST = np.random.default_rng(0).integers(0, 101, (6, 16))
MIX = {"patterns": ["2:4", "1:4"], "rounding": "fitted"}


@pytest.fixture(scope="module")
def compressor() -> Compressor:
    return Compressor(build_llama(CHECKPOINT), IDS_ST, IDS_ST)


def compress(compressor: Compressor, **document: Any) -> Compressed:
    return compressor.compress(parse_compression_recipe(document))


def total(compressed: Compressed) -> int:
    return sum(packed(matrix).nbytes for matrix in compressed.matrices.values())


@pytest.mark.parametrize("bits", [2.6, 2.8, 3.0, 3.2])
def test_a_budget_is_kept_and_spent(compressor: Compressor, bits: float) -> None:
    compressed = compress(compressor, **MIX, budget={"bits_per_weight": bits})
    allowed = bits * weight_count(CHECKPOINT.config) / 8
    assert 0.93 * allowed < total(compressed) <= allowed
    patterns = [matrix.pattern for name, matrix in compressed.matrices.items() if name != "lm_head"]
    assert set(patterns) <= {Pattern.TWO_OF_FOUR, Pattern.ONE_OF_FOUR}
    assert compressed.matrices["lm_head"].pattern is Pattern.DENSE


def test_more_budget_is_never_sparser_nor_worse(compressor: Compressor) -> None:
    kept, lost = [], []
    for bits in (2.6, 2.8, 3.0, 3.2):
        compressed = compress(compressor, **MIX, budget={"bits_per_weight": bits})
        kept.append(sum(m.pattern.kept * m.dequantised().size for m in compressed.matrices.values()))
        lost.append(
            sum(increases[compressed.matrices[name].pattern] for name, increases in compressed.increases.items())
        )
    assert kept == sorted(kept)
    assert lost == sorted(lost, reverse=True)


def test_the_three_ways_to_say_a_budget_agree() -> None:
    config = CHECKPOINT.config
    bytes_ = 40_000
    for budget in (
        {"bits_per_weight": 8 * bytes_ / weight_count(config)},
        {"megabytes_per_token": bytes_ / 1e6},
        {"megabytes": (bytes_ + other_bytes(config)) / 1e6},
    ):
        found = matrix_budget(parse_compression_recipe({**MIX, "budget": budget}), config)
        assert found is not None and abs(found - bytes_) <= 1


def test_other_bytes_are_those_of_the_model(compressor: Compressor) -> None:
    model = packed_model(CHECKPOINT, compress(compressor, patterns=["2:4"], rounding="nearest"))
    assert other_bytes(model.config) == (
        model.embeddings_VD.nbytes + sum(norm.nbytes for norm in model.norms.values()) + model.frequencies.nbytes
    )


@pytest.mark.parametrize("kind", ["adaptive", "uniform"])
def test_impossible_budgets_are_refused(compressor: Compressor, kind: str) -> None:
    with pytest.raises(BudgetError, match=r"a budget of [\d,]+ bytes; [\d,]+ to [\d,]+ bytes are possible"):
        compress(compressor, **MIX, budget={"bits_per_weight": 1.0}, groups={"kind": kind})
    with pytest.raises(BudgetError):
        compress(
            compressor, patterns=["2:4"], rounding="nearest", budget={"bits_per_weight": 1.0}, groups={"kind": kind}
        )


@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize("pattern", ["dense", "2:4", "1:4"])
def test_adaptive_groups_take_no_more_than_uniform_ones_and_are_estimated_better(
    compressor: Compressor, pattern: str, size: int
) -> None:
    lost = {}
    bytes_ = {}
    for kind in ("uniform", "adaptive"):
        compressed = compress(compressor, patterns=[pattern], rounding="nearest", groups={"kind": kind, "size": size})
        bytes_[kind] = total(compressed)
        # The loss of rounding alone, the figure by which groups are allocated.
        lost[kind] = sum(
            float(
                compressor.calibration[name]
                .loss_increase_N(
                    np.where(matrix.dequantised() != 0, compressor.weights[name], 0).astype(np.float32)
                    - matrix.dequantised()
                )
                .sum()
            )
            for name, matrix in compressed.matrices.items()
        )
    assert bytes_["adaptive"] <= bytes_["uniform"]
    assert lost["adaptive"] <= lost["uniform"] * 1.02


def test_codes_that_a_mask_keeps_follow_the_criterion(compressor: Compressor) -> None:
    masks = {}
    for criterion in ("magnitude", "wanda", "gradient"):
        matrix = compress(compressor, patterns=["2:4"], rounding="nearest", criterion=criterion).matrices[
            "model.layers.1.mlp.up_proj"
        ]
        masks[criterion] = matrix.dequantised() != 0
    assert (masks["magnitude"] != masks["wanda"]).any()
    assert (masks["gradient"] != masks["wanda"]).any()


def test_16_bit_values(compressor: Compressor) -> None:
    plain = compress(compressor, patterns=["2:4"], values="bf16", rounding="nearest")
    made_up_for = compress(compressor, patterns=["2:4"], values="bf16", rounding="compensated")
    name = "model.layers.0.mlp.down_proj"
    errors = [
        compressor.calibration[name].loss_increase_N(one.matrices[name].dequantised() - compressor.weights[name]).sum()
        for one in (plain, made_up_for)
    ]
    assert errors[1] < errors[0]
    np.testing.assert_array_equal(
        plain.matrices[name].dequantised() != 0, made_up_for.matrices[name].dequantised() != 0
    )


def test_everything_survives_packing(compressor: Compressor) -> None:
    compressed = compress(
        compressor, **{**MIX, "rounding": "compensated"}, budget={"bits_per_weight": 3.0},
        recovery={"steps": 2, "tokens": 16},
    )  # fmt: skip
    model = packed_model(CHECKPOINT, compressed)
    for name, matrix in compressed.matrices.items():
        np.testing.assert_array_equal(dequantised(model.matrices[name]), matrix.dequantised())


def test_the_same_twice() -> None:
    document = {
        **MIX,
        "rounding": "compensated",
        "budget": {"bits_per_weight": 3.0},
        "recovery": {"steps": 2, "tokens": 16},
    }
    first, second = (
        Compressor(build_llama(CHECKPOINT), IDS_ST, IDS_ST).compress(parse_compression_recipe(document))
        for _ in range(2)
    )
    for name, matrix in first.matrices.items():
        other = second.matrices[name]
        assert isinstance(matrix, QuantisedMatrix) and isinstance(other, QuantisedMatrix)
        np.testing.assert_array_equal(matrix.codes_NK, other.codes_NK)
        np.testing.assert_array_equal(matrix.scales_NB, other.scales_NB)


def test_the_report_adds_up(compressor: Compressor) -> None:
    compressed = compress(compressor, **MIX, budget={"bits_per_weight": 3.0})
    model = packed_model(CHECKPOINT, compressed)
    report = compression_report(
        CHECKPOINT.config, compressed, model.matrices, compressor.weights, compressor.calibration, 10.0, 12.0
    )
    assert report.bytes_per_token == model.weight_bytes == sum(one.bytes for one in report.matrices)
    assert report.bits_per_weight == pytest.approx(8 * model.weight_bytes / weight_count(CHECKPOINT.config))
    for one in report.matrices:
        assert sum(one.groups.values()) == CHECKPOINT.config.linear_layers()[one.name][0]
        assert 0 <= one.error < 1 or one.pattern == "1:4"
    packed_size, int4_csr, fp16_csr, dense = report.sizes
    sparse = [one for one in model.matrices.values() if one.pattern.sparse]
    assert packed_size.total == sum(one.nbytes for one in sparse)
    assert dense.total == 2 * sum(one.rows * one.columns for one in sparse)
    kept = sum(one.rows * one.columns * one.pattern.kept // 4 for one in sparse)
    assert (int4_csr.values, int4_csr.indices) == (kept // 2, 2 * kept)
    assert (fp16_csr.values, fp16_csr.indices) == (2 * kept, 4 * kept)
