"""The quality benchmark: contenders of one model, claims that follow from figures, a plot of all of them."""

import argparse
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
import torch
from gguf import GGMLQuantizationType

from tests.support.checkpoints import hugging_face_model, save_gguf
from triton_ads.bench.quality import add_criteria, add_groups, configure, run
from triton_ads.bench.quality_contenders import PEERS, ablation, criteria, groups, table
from triton_ads.bench.quality_plot import Point, beaten_by_bytes, draw_plot
from triton_ads.bench.report import Report
from triton_ads.compression.importance import Criterion
from triton_ads.compression.patterns import Pattern, Values
from triton_ads.compression.quality import Agreement


def test_the_rows_are_those_of_the_seed() -> None:
    assert list(ablation()) == ["INT4", "2:4", "1:4", "2:4 + INT4", "1:4 + INT4", "mix + INT4"]
    rows = table(7)
    assert [name for name in rows if "recovered" in name] == [
        f"{name}, recovered" for name in ("INT4", "2:4 + INT4", "1:4 + INT4", "mix + INT4")
    ]
    recovery = rows["INT4, recovered"].recovery
    assert recovery is not None and recovery.steps == 7
    assert list(table(0)) == list(ablation())
    assert rows["2:4"].values is Values.BF16 and rows["2:4"].choices("lm_head") == (Pattern.DENSE,)


def test_criteria_and_groups_differ_in_nothing_else() -> None:
    alike = {
        recipe.model_copy(update={"criterion": Criterion.WANDA}).model_dump_json() for recipe in criteria().values()
    }
    assert len(alike) == 2  # one a pattern
    for rounding in ("nearest", "fitted", "compensated"):
        uniform, adaptive = (groups()[rounding, kind] for kind in ("uniform", "adaptive"))
        assert uniform.model_copy(update={"groups": adaptive.groups}) == adaptive


class Fake:
    """Answers with a perplexity by name."""

    def __init__(self, perplexities: dict[str, float]) -> None:
        self._perplexities = perplexities

    def __call__(self, name: str, recipe: object) -> tuple[object, None]:
        value = next((value for part, value in self._perplexities.items() if part in name), 10.0)
        return argparse.Namespace(perplexity=value, nbytes=100, agreement=Agreement(1.0, 1.0)), None


def test_claims_follow_from_perplexities() -> None:
    report = Report("")
    add_criteria(report, Fake({"2:4 by magnitude": 30.0, "2:4 by gradient": 20.0, "1:4 by gradient": 11.0}))  # type: ignore[arg-type]
    assert [(claim.value, claim.holds) for claim in report.claims] == [(1.5, True), (10 / 11, False)]
    report = Report("")
    add_groups(report, Fake({"nearest, uniform": 12.0, "fitted, adaptive": 12.5}))  # type: ignore[arg-type]
    assert [(claim.value, claim.holds) for claim in report.claims] == [(1.2, True), (0.8, False), (1.0, True)]


POINTS = [
    Point("BF16", 10.0, 200, 10.0),
    Point("2:4 + INT4 & more", 20.0, 50, 40.0),
    Point("2:4 + INT4, recovered", 15.0, 50, 40.0),
    Point("llama.cpp Q2_K", 14.0, 48, None),
]


def test_who_is_beaten() -> None:
    assert beaten_by_bytes(POINTS, "2:4 + INT4 & more") == 1  # the equal size does not count
    assert beaten_by_bytes(POINTS, "llama.cpp Q2_K") == 0
    assert beaten_by_bytes(POINTS, "BF16") == 0


def test_a_plot_shows_every_contender_where_it_has_figures() -> None:
    root = ElementTree.fromstring(draw_plot(POINTS, "tiny"))
    charts = root.findall("{*}g")
    assert len(charts) == 2
    circles = [len(chart.findall("{*}circle")) for chart in charts]
    assert circles == [4 + 4, 3 + 4]  # contenders, and the legend's
    assert "2:4 + INT4 & more" in [text.text for text in charts[0].iter("{http://www.w3.org/2000/svg}text")]
    untimed = [Point(point.name, point.perplexity, point.nbytes, None) for point in POINTS]
    assert len(ElementTree.fromstring(draw_plot(untimed, "tiny")).findall("{*}g")) == 1


def test_all_of_it_on_a_small_model(tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    torch.set_num_threads(1)
    sizes = {"max_position_embeddings": 512, "hidden_size": 64, "intermediate_size": 96}
    checkpoint = save_gguf(tmp_path / "tiny.gguf", hugging_face_model(**sizes), GGMLQuantizationType.F16)
    parser = argparse.ArgumentParser()
    configure(parser)
    report = run(
        parser.parse_args(
            ["--checkpoint", str(checkpoint), "--plot", str(tmp_path / "plot.svg"), "--held-out-tokens", "512",
             "--calibration-sequences", "1", "--recovery-steps", "1", "--rounds", "0"]
        )
    )  # fmt: skip
    perplexity = {
        row.contender: row.value for row in report.rows if (row.name, row.metric) == ("quality", "perplexity")
    }
    assert list(perplexity) == ["BF16", *table(1), *(f"llama.cpp {kind}" for kind in PEERS)]
    assert perplexity["llama.cpp Q8_0"] == pytest.approx(perplexity["BF16"], rel=0.05)
    same = {row.contender: row.value for row in report.rows if row.metric == "greedy tokens as the baseline's"}
    assert same["BF16"] > 0.9 > same["1:4 + INT4"]
    assert len(report.claims) == 5
    assert (tmp_path / "plot.svg").read_text().count("<circle") == len(perplexity) + 4
