"""Throughput against the 99th percentile of the open loops, as an SVG that needs no package."""

import math
from collections.abc import Sequence
from html import escape
from pathlib import Path

import numpy as np

from triton_ads.bench.serving_report import ServingReport

_WIDTH, _HEIGHT = 460, 340  # of one chart, axes and all
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 16, 36, 44
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7")  # told apart by colour-blind readers (Okabe and Ito)


def save_plot(report: ServingReport, path: Path) -> None:
    """Write a chart for each mix of request lengths, beside each other."""
    path.write_text(draw_plot(report), encoding="utf-8")


def draw_plot(report: ServingReport) -> str:
    """The SVG's text."""
    curves: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for (contender, mix, _), outcomes in report.open.items():
        point = (
            float(np.median([o.rate for o in outcomes])),
            float(np.median([o.percentile(0.99) for o in outcomes])),
        )
        curves.setdefault(mix, {}).setdefault(contender, []).append(point)
    charts = [_chart(f"{report.title}: {mix}", lines, report.deadline_ms) for mix, lines in curves.items()]
    moved = [f'<g transform="translate({i * _WIDTH} 0)">{chart}</g>' for i, chart in enumerate(charts)]
    width = _WIDTH * len(charts)
    style = (
        "text{font:11px sans-serif;fill:#333}.title{font-size:13px}.grid{stroke:#ddd}.line{fill:none;stroke-width:2}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" '
        f'viewBox="0 0 {width} {_HEIGHT}"><style>{style}</style><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(moved)}</svg>\n"
    )


def _chart(title: str, lines: dict[str, list[tuple[float, float]]], deadline_ms: float) -> str:
    rates = [rate for points in lines.values() for rate, _ in points]
    times = [ms for points in lines.values() for _, ms in points] + [deadline_ms]
    most = max(rates) * 1.05
    low, high = math.floor(math.log10(min(times))), math.ceil(math.log10(max(times)))

    def x(rate: float) -> float:
        return _LEFT + rate / most * (_WIDTH - _LEFT - _RIGHT)

    def y(ms: float) -> float:
        return _HEIGHT - _BOTTOM - (math.log10(ms) - low) / max(1, high - low) * (_HEIGHT - _TOP - _BOTTOM)

    parts = [f'<text class="title" x="{_LEFT}" y="18">{escape(title)}</text>']
    for power in range(low, high + 1):
        at = y(10.0**power)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text text-anchor="end" x="{_LEFT - 6}" y="{at + 4:.1f}">{10.0**power:g}</text>')
    for rate in _ticks(most):
        parts.append(f'<text text-anchor="middle" x="{x(rate):.1f}" y="{_HEIGHT - _BOTTOM + 16}">{rate:g}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 8}">requests answered a second</text>')
    parts.append(f'<text x="6" y="{_TOP - 6}">p99, ms</text>')
    at = y(deadline_ms)
    parts.append(
        f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#333" stroke-dasharray="4"/>'
    )
    parts.append(f'<text text-anchor="end" x="{_WIDTH - _RIGHT}" y="{at - 4:.1f}">deadline</text>')
    for i, (contender, points) in enumerate(lines.items()):
        colour = _COLOURS[i % len(_COLOURS)]
        path = " ".join(f"{x(rate):.1f},{y(ms):.1f}" for rate, ms in points)
        parts.append(f'<polyline class="line" stroke="{colour}" points="{path}"/>')
        parts += [f'<circle cx="{x(r):.1f}" cy="{y(ms):.1f}" r="3" fill="{colour}"/>' for r, ms in points]
        parts.append(f'<text x="{_LEFT + 8}" y="{_TOP + 12 + 15 * i}" style="fill:{colour}">{escape(contender)}</text>')
    return "".join(parts)


def _ticks(most: float) -> Sequence[float]:
    """Round numbers, about five of them, from 0."""
    step = 10 ** math.floor(math.log10(most / 2))
    step *= next(factor for factor in (1, 2, 5, 10) if most / (step * factor) <= 6)
    return [step * i for i in range(int(most / step) + 1)]
