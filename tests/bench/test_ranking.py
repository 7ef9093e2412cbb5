"""`bench ranking`: requests in both forms, what is claimed, and a whole short run on one of the six rankers."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from triton_ads.bench import ranking
from triton_ads.bench.graphs import Request
from triton_ads.bench.rankers import RANKERS
from triton_ads.bench.report import Report
from triton_ads.bench.timing import Timings
from triton_ads.cli import main


def test_a_request_in_both_forms() -> None:
    """Three candidates in tiles of two: the last tile is padded, and its padding is cut off again."""
    user = {"user_ids": torch.tensor([[7, 8]])}
    request = Request.of(user, {"item_ids": torch.tensor([[1], [2], [3]])}, tile=2)
    assert request.flat["user_ids"].tolist() == [[7, 8]] * 3
    assert request.flat["item_ids"].tolist() == [[1], [2], [3]]
    assert request.tiled["item_ids"].tolist() == [[[1], [2]], [[3], [0]]]
    assert request.tiled["user_of_tile"].tolist() == [0, 0]
    assert request.user["user_ids"].tolist() == [[7, 8]]
    scores_CPK = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    assert request.unpad(scores_CPK).tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize(
    ("name", "floor"),
    [("din", 1.8), ("dlrm", 1.2), ("target_attention", 4), ("mixed_tokens", 0.97), ("deepfm", 0.97), ("mmoe", 0.97)],
)
def test_one_claim_for_each_ranker_at_256_candidates(name: str, floor: float) -> None:
    for ratio, holds in ((floor, True), (floor * 0.999, False)):
        report = Report("")
        timings = Timings({"row-wise": np.full(3, ratio), "compiled": np.ones(3)})
        ranking._add_foreign(report, timings, name, 64)
        assert report.claims == []
        ranking._add_foreign(report, timings, name, 256)
        (claim,) = report.claims
        assert (claim.target, claim.holds) == (floor, holds)
        assert claim.claim == f"{RANKERS[name].title}, 256 candidates: row-wise / ours >= {floor:g}"


def test_a_short_run_says_what_it_measures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ranking.json"
    given = ["--rankers", "deepfm", "--candidates", "5", "70", "--rounds", "2", "--json", str(file)]
    assert main(["bench", "ranking", *given]) == 0
    told = capsys.readouterr().err.splitlines()
    assert [line for line in told if line.startswith("bench ranking: ")] == [
        "bench ranking: DeepFM: exporting",
        "bench ranking: DeepFM: 5 candidates",
        "bench ranking: DeepFM: 70 candidates",
    ]
    rows = json.loads(file.read_text())["rows"]
    assert {(row["name"], row["contender"]) for row in rows} == {
        (f"DeepFM, {count} candidates", contender) for count in (5, 70) for contender in ("row-wise", "compiled")
    }
    assert all(row["value"] > 0 for row in rows)


@pytest.mark.parametrize("name", RANKERS)
def test_rows_that_are_drawn(name: str) -> None:
    """A sequence is padded at its end alone; the first row has no event, the second no padding."""
    ranker = RANKERS[name]
    rows = ranker.draw(40, seed=1)
    for key, kind in ranker.inputs.items():
        assert len(rows[key]) == 40
        if getattr(kind, "sequence", False):
            assert not rows[key][0].any()
            assert rows[key][1].all()
            known = rows[key].reshape(40, kind.shape[0], -1) != 0  # type: ignore[union-attr]
            assert (known[:, 1:] <= known[:, :-1]).all()
    again = ranker.draw(40, seed=1)
    assert all(torch.equal(rows[key], again[key]) for key in rows)
