"""The document of a run, its figures, and two documents beside each other."""

import io

import pytest
from rich.console import Console

from tests.loadtest.reports import contender, report
from triton_ads.loadtest.compare import compare_page, compare_table, compared, differences
from triton_ads.loadtest.figures import cost_ratio, costs, held_figures, problems, rated, too_short
from triton_ads.loadtest.report import Check, Cost, LoadReport, ReportError
from triton_ads.loadtest.summary import summary


def shown(call, *args) -> str:
    console = Console(file=io.StringIO(), width=160)
    call(*args, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_report_is_read_as_it_was_written(tmp_path):
    whole = report(contender("triton-ads", 100, 9.0), contender("naive", 40, None))
    whole.save(tmp_path / "report.json")
    assert LoadReport.load(tmp_path / "report.json") == whole


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2}', '{"machine": {}, "rows": []}', "\xff"])
def test_another_file_is_refused_by_its_name(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ReportError, match=r"other.json: no report of `triton-ads loadtest` found"):
        LoadReport.load(path)


def test_another_format_is_refused(tmp_path):
    path = tmp_path / "report.json"
    report(contender("triton-ads", 100, 9.0)).save(path)
    path.write_text(path.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(ReportError, match="format 1 found, 2 allowed"):
        LoadReport.load(path)


def test_costs_are_core_time_by_what_was_ranked():
    cost = Cost(core_s=36.0, requests=1000, candidates=270_000)
    assert cost.candidates_per_core_s == 7500
    assert cost.core_h_per_million_candidates == pytest.approx(0.01 / 0.27)
    assert cost.core_h_per_million_requests == pytest.approx(10.0)
    both = report(contender("triton-ads", 100, 9.0), contender("naive", 40, 36.0))
    assert cost_ratio(both) == pytest.approx(0.25)
    assert cost_ratio(report(contender("triton-ads", 100, 9.0))) is None
    assert cost_ratio(report(contender("triton-ads", 100, 9.0), contender("naive", 40, None))) is None
    one = both.contenders[0].held
    assert one is not None
    assert [round(value, 4) for _, value in costs(one)] == [30_000, 0.0093, 2.5]


@pytest.mark.parametrize(("server", "agrees"), [(980, True), (1020, True), (979, False), (1021, False)])
def test_counts_agree_up_to_two_percent(server, agrees):
    assert Check(what="any", client=1000, server=server, watchdog=0, total=1000).agrees is agrees


def test_the_summary_tells_the_rated_load_the_checks_and_the_cost():
    text = shown(summary, report(contender("triton-ads", 100, 9.0), contender("naive", 40, 36.0)))
    for part in (
        "triton-ads: 100 requests/s (27,000 ads/s)",
        "1000",
        "1010",
        "1.00%",
        "30,000",
        "-75.0%",
        "this <thing>",
        "110.0 requests/s failed when held: 90.00% of 2,200 in time in 20.0 s",
    ):
        assert part in text


def test_the_summary_has_every_rate_with_its_phase():
    lines = shown(summary, report(contender("triton-ads", 100, 9.0))).splitlines()
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in lines]
    assert [(row[0], row[1], row[9]) for row in rows if len(row) == 11] == [
        ("50.0", "rising", "yes"), ("100.0", "rising", "yes"), ("100.0", "held", "yes"), ("110.0", "rising", "yes"),
        ("110.0", "held", "NO"), ("130.0", "rising", "NO"), ("130.0", "rising", "NO"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("rate", "seconds", "requests", "text"),
    [
        # 180 s: 5 s of warm-up, 4 rising steps of 5.5 s, a failed part of 20.5 s; of the 132.5 s left 6 parts of 20 s.
        (100.0, 2.2, 169, "too short to rely on: 169 requests in 2.2 s; --duration 180 holds it for about 120 s"),
        (100.0, 20.0, 999, "too short to rely on: 999 requests in 20.0 s; --duration 180 holds it for about 120 s"),
        (100.0, 19.9, 5000, "too short to rely on: 5,000 requests in 19.9 s; --duration 180 holds it for about 120 s"),
        (100.0, 20.0, 1000, ""),
        (0.1, 2000.0, 200, "too short to rely on: 200 requests in 2000.0 s"),  # no duration would be enough
    ],
)
def test_a_rated_load_that_rests_on_little_is_told(rate, seconds, requests, text):
    whole = contender("triton-ads", rate, 9.0)
    assert whole.held is not None
    window = whole.held.window.model_copy(update={"seconds": seconds, "requests": requests})
    short = whole.model_copy(update={"held": whole.held.model_copy(update={"window": window})})
    assert too_short(short) == text
    assert (text in shown(summary, report(short))) and (bool(text) == ("too short" in shown(summary, report(short))))
    assert (f"second, triton-ads: {text}" in shown(compare_table, report(whole), report(short))) == bool(text)


def test_without_a_rated_load_none_is_too_short():
    assert too_short(contender("triton-ads", 100, 9.0).model_copy(update={"held": None})) == ""


def test_the_window_that_was_held_decides_the_curve():
    curve = [(w.offered, w.phase, w.holds) for w in contender("triton-ads", 100, 9.0).curve]
    assert curve == [
        (50, "rising", True),
        (100, "held", True),
        (pytest.approx(110), "held", False),
        (130, "rising", False),
    ]


def test_a_server_that_fell_behind_is_told_although_all_were_in_time():
    whole = contender("triton-ads", 100, 9.0).steps[0]
    assert problems(whole) == ""
    assert problems(whole.model_copy(update={"answered": 45.0})) == "fell behind: 450 answered within 10.0 s"


def test_a_run_in_which_no_rate_held_is_told():
    none = contender("triton-ads", 100, 9.0).model_copy(update={"held": None})
    assert rated(none) == "triton-ads: no rate held"
    assert "no rate held" in shown(summary, report(none))


def test_a_comparison_has_every_figure_of_both_and_its_ratio():
    first, second = contender("triton-ads", 100, 9.0), contender("triton-ads", 125, 4.5)
    rows = {name: (a, b, ratio) for name, a, b, ratio in compared(first, second)}
    assert rows["rated load, requests/s"] == (100, 125, 1.25)
    assert rows["core-hours per million ranked candidates"][2] == pytest.approx(0.5)
    assert rows["tile fill, tier standard"][2] == 1.0
    assert rows["requests per execution, rank"][0] == 2.5
    assert first.held is not None
    assert set(rows) == {name for name, _ in held_figures(first.held)}


def test_a_figure_that_one_run_lacks_is_shown_and_has_no_ratio():
    first, second = report(contender("triton-ads", 100, None)), report(contender("triton-ads", 100, 9.0))
    text = shown(compare_table, first, second)
    (line,) = [line for line in text.splitlines() if "per core-second" in line]
    assert [cell.strip() for cell in line.split("│")[2:5]] == ["-", "30,000", "-"]


def test_what_two_runs_do_not_have_in_common_is_told():
    first = report(contender("triton-ads", 100, 9.0))
    second = report(contender("triton-ads", 100, 9.0), release="ba9876543210")
    assert differences(first, first) == []
    assert differences(first, second) == ["release: 0123456789ab / ba9876543210"]
    text = compare_page(first, second, "a.json", "b.json")
    assert "release: 0123456789ab / ba9876543210" in text
    assert text.count("<svg") == 1
