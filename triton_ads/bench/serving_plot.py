"""Throughput against the 99th percentile of the open loops."""

from pathlib import Path

import numpy as np

from triton_ads.bench.serving_report import ServingReport
from triton_ads.charts import svg
from triton_ads.charts.lines import Line, LineChart


def save_plot(report: ServingReport, path: Path) -> None:
    """Write a chart for each mix of request lengths, beside each other."""
    path.write_text(draw_plot(report) + "\n", encoding="utf-8")


def draw_plot(report: ServingReport) -> str:
    """The SVG's text."""
    curves: dict[str, dict[str, list[tuple[float, float | None]]]] = {}
    for (contender, mix, _), outcomes in report.open.items():
        point = (
            float(np.median([o.rate for o in outcomes])),
            float(np.median([o.percentile(0.99) for o in outcomes])),
        )
        curves.setdefault(mix, {}).setdefault(contender, []).append(point)
    charts = [
        LineChart(
            f"{report.title}: {mix}",
            "requests answered a second",
            "p99, ms, logarithmic",
            [Line(name, points, colour) for (name, points), colour in zip(lines.items(), svg.COLOURS, strict=False)],
            levels=[(report.deadline_ms, "deadline")],
            logarithmic=True,
        )
        for mix, lines in curves.items()
    ]
    width, height = LineChart.width, LineChart.height
    body = svg.beside([chart.body() for chart in charts], width)
    return svg.document(width * len(charts), height, body, report.title)
