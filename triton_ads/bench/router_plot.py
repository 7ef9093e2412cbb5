"""The curves of `bench router` as an SVG that needs no package."""

from html import escape
from pathlib import Path

import numpy as np

from triton_ads.bench.router_report import LEARNED, LENGTH, RANDOM, RouterReport

_WIDTH, _HEIGHT = 560, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 20, 36, 48
_COLOURS = {LEARNED: "#0072b2", LENGTH: "#009e73", RANDOM: "#d55e00"}  # told apart by colour-blind readers


def save_plot(report: RouterReport, path: Path) -> None:
    path.write_text(draw_plot(report), encoding="utf-8")


def draw_plot(report: RouterReport) -> str:
    """The SVG's text: AUC against mean FLOPs, a line for the mean over the seeds and a band from least to most.

    Worlds of different seeds are of different difficulty, so what is drawn is the difference to the standard tier of
    the same seed.
    """
    names = [name for name in _COLOURS if name in report.contenders]
    label = report.labels[0]
    gains = {name: report.auc(name) - report.auc(name)[:, :1] for name in names}
    flops = [f / 1e6 for f in report.flops]
    low, high = (float(of(np.stack(list(gains.values())))) for of in (np.min, np.max))
    margin = 0.05 * max(high - low, 1e-6)
    low, high = low - margin, high + margin

    def x(value: float) -> float:
        return _LEFT + (value - flops[0]) / max(flops[-1] - flops[0], 1e-9) * (_WIDTH - _LEFT - _RIGHT)

    def y(value: float) -> float:
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)

    drawn = [f'<text class="title" x="{_LEFT}" y="18">{escape(report.title)}, {len(report.seeds)} seeds</text>']
    for tick in _ticks(low, high):
        drawn.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{y(tick):.1f}" y2="{y(tick):.1f}"/>')
        drawn.append(f'<text text-anchor="end" x="{_LEFT - 6}" y="{y(tick) + 4:.1f}">{tick:+.4g}</text>')
    for tick in _ticks(flops[0], flops[-1]):
        drawn.append(f'<text text-anchor="middle" x="{x(tick):.1f}" y="{_HEIGHT - _BOTTOM + 16}">{tick:g}</text>')
    drawn.append(f'<text x="6" y="{_TOP - 6}">AUC {escape(label)}, beyond always-standard</text>')
    drawn.append(
        f'<text x="{_LEFT}" y="{_HEIGHT - 10}">mean MFLOP of a request: left always-standard, right always-high</text>'
    )
    for i, name in enumerate(names):
        colour, values = _COLOURS[name], gains[name]
        upper = [f"{x(f):.1f},{y(v):.1f}" for f, v in zip(flops, values.max(axis=0), strict=True)]
        lower = [f"{x(f):.1f},{y(v):.1f}" for f, v in zip(flops, values.min(axis=0), strict=True)]
        drawn.append(f'<polygon fill="{colour}" fill-opacity="0.12" points="{" ".join(upper + lower[::-1])}"/>')
        mean = " ".join(f"{x(f):.1f},{y(v):.1f}" for f, v in zip(flops, values.mean(axis=0), strict=True))
        drawn.append(f'<polyline class="line" stroke="{colour}" points="{mean}"/>')
        at = _HEIGHT - _BOTTOM - 12 - 16 * (len(names) - 1 - i)
        drawn.append(
            f'<text text-anchor="end" x="{_WIDTH - _RIGHT - 8}" y="{at}" style="fill:{colour}">{escape(name)}</text>'
        )
    style = (
        "text{font:11px sans-serif;fill:#333}.title{font-size:13px}.grid{stroke:#ddd}.line{fill:none;stroke-width:2}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" '
        f'viewBox="0 0 {_WIDTH} {_HEIGHT}"><style>{style}</style><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(drawn)}</svg>\n"
    )


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between, about five of them."""
    step = 10.0 ** np.floor(np.log10((high - low) / 2))
    step *= next((factor for factor in (1, 2, 5) if (high - low) / (step * factor) <= 6), 10)
    return [float(step * i) for i in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]
