"""The curves of `bench router`."""

from pathlib import Path

from triton_ads.bench.router_report import LEARNED, LENGTH, RANDOM, RouterReport
from triton_ads.charts import svg
from triton_ads.charts.lines import Line, LineChart

_COLOURS = {LEARNED: svg.COLOURS[0], LENGTH: svg.COLOURS[2], RANDOM: svg.COLOURS[1]}


def save_plot(report: RouterReport, path: Path) -> None:
    path.write_text(draw_plot(report) + "\n", encoding="utf-8")


def draw_plot(report: RouterReport) -> str:
    """The SVG's text: AUC against mean FLOPs, a line for the mean over the seeds and a band from least to most.

    Worlds of different seeds are of different difficulty, so what is drawn is the difference to the standard tier of
    the same seed.
    """
    flops = [f / 1e6 for f in report.flops]
    lines = []
    for name, colour in _COLOURS.items():
        if name in report.contenders:
            gains_SF = report.auc(name) - report.auc(name)[:, :1]
            band = list(zip(flops, gains_SF.min(axis=0).tolist(), gains_SF.max(axis=0).tolist(), strict=True))
            means = list(zip(flops, gains_SF.mean(axis=0).tolist(), strict=True))
            lines.append(Line(name, means, colour, dots=False, band=band))
    return LineChart(
        f"{report.title}, {len(report.seeds)} seeds",
        "mean MFLOP of a request: left always-standard, right always-high",
        f"AUC {report.labels[0]}, beyond always-standard",
        lines,
        from_zero=False,
        y_format="+.4g",
        height=380,
    ).document()
