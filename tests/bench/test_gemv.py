"""The product benchmark: contenders compute the right thing, and claims follow from figures."""

import numpy as np
import pytest
from numpy.typing import NDArray

from triton_ads.bench import gemv_ours, gemv_peers
from triton_ads.bench.gemv import PROBE, Case, Measured, geometric_mean, report_of
from triton_ads.bench.gemv_child import take_turns
from triton_ads.bench.gemv_contender import COLD_BYTES, Contender, copies_of


@pytest.mark.parametrize("nbytes", [1, 1000, 10 << 20, 400 << 20])
@pytest.mark.parametrize("batch", [1, 20])
def test_lots_hold_enough_to_be_cold(nbytes: int, batch: int) -> None:
    products, lots = copies_of(nbytes, batch)
    assert products >= 1
    assert lots >= 2
    assert products * lots * nbytes >= COLD_BYTES


def test_turns_rotate_and_bursts_follow_each_other() -> None:
    seen: list[tuple[str, int]] = []
    contenders = [Contender(n, 1, 2, 3, lambda lot, n=n: seen.append((n, lot)), 0.0) for n in "ab"]
    us = take_turns(contenders, rounds=2, rest_s=0)
    assert [name for name, _ in seen] == ["a", "a", "b", "b", "b", "b", "a", "a"]
    assert [lot for name, lot in seen if name == "a"] == [0, 1, 2, 0]
    assert {name: len(values) for name, values in us.items()} == {"a": 2, "b": 2}


def matrices() -> tuple[Case, NDArray[np.float32], NDArray[np.float32]]:
    rng = np.random.default_rng(0)
    case = Case(rows=256, columns=512, batch=1, threads=1)
    weight_NK = rng.standard_normal((256, 512), dtype=np.float32)
    return case, weight_NK, rng.standard_normal((1, 512), dtype=np.float32)


def test_every_contender_computes_its_product(monkeypatch: pytest.MonkeyPatch) -> None:
    # Cold enough for a test.
    monkeypatch.setattr("triton_ads.bench.gemv_contender.COLD_BYTES", 1 << 20)
    monkeypatch.setattr("triton_ads.bench.gemv_contender.BURST_BYTES", {1: 1 << 18})
    limits = {"A8": 2e-2, "AVX2": 2e-2, "A16": 1e-4, "BF16": 1e-5}
    for contender in gemv_ours.contenders(*matrices()):
        assert contender.error <= limits[contender.name.split()[-1]], contender.name
    errors = {contender.name: contender.error for contender in gemv_peers.contenders(*matrices())}
    assert errors["NumPy FP32"] < 1e-5
    assert errors["torch BF16"] < 1e-2
    assert errors["torch INT4"] < 1e-2
    assert errors["ONNX Runtime"] < 2e-2


def measured(case: Case, ours: float, peer: float) -> Measured:
    us = {"ours 2:4 A8": ours, "torch INT4": 4 * peer, "ONNX Runtime": peer, "torch BF16": 20 * ours, PROBE: 100.0}
    return Measured(
        case,
        {name: np.array([value, value * 2, value * 3]) for name, value in us.items()},
        {name: 1000 for name in us} | {PROBE: 100_000},
        dict.fromkeys(us, 0.001),
    )


def test_figures_of_a_case() -> None:
    one = measured(Case(64, 64, 1, 1), ours=2.0, peer=5.0)
    assert one.best_int4_peer == "ONNX Runtime"
    assert one.ratio("ONNX Runtime", "ours 2:4 A8") == 2.5
    # 1000 bytes in 2 us beside 100000 bytes in 100 us.
    assert one.of_probe("ours 2:4 A8") == 0.5


def test_geometric_mean() -> None:
    assert geometric_mean([2.0, 8.0]) == pytest.approx(4.0)


def test_claims_are_over_all_shapes() -> None:
    cases = [measured(Case(64, 64, 1, 1), 2.0, 4.0), measured(Case(128, 64, 1, 1), 2.0, 9.0)]
    cases += [measured(Case(64, 64, 1, 2), 2.0, 3.0), measured(Case(128, 64, 1, 2), 2.0, 2.0)]
    # The figures of this test lack the other contenders' columns.
    for one in cases:
        for name in ("ours 1:4 A8", "ours 2:4 A16", "ours 1:4 A16"):
            one.us[name], one.nbytes[name], one.error[name] = one.us["ours 2:4 A8"], 1000, 0.0
    claims = {claim.claim.split(" >=")[0]: claim for claim in report_of(cases, 3).claims}
    mean = claims["M=1: ours 2:4 A8 times the best INT4 peer"]
    assert mean.value == pytest.approx(3.0)  # the geometric mean of 2 and 4.5
    assert mean.holds
    least = claims["M=1, 2 threads: ours 2:4 A8 times the best INT4 peer, least"]
    assert least.value == pytest.approx(1.0)
    assert not least.holds
    assert claims["M=1: ours 2:4 A8 times torch BF16"].value == pytest.approx(20.0)
