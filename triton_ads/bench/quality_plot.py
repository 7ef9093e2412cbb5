"""Perplexity against bytes read a token and against tokens/s, as an SVG that needs no package."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

_WIDTH, _HEIGHT = 620, 430  # of one chart, axes and all
_LEFT, _RIGHT, _TOP, _BOTTOM = 56, 120, 36, 44
#: Told apart by colour-blind readers (Okabe and Ito).
_DENSE, _SPARSE, _RECOVERED, _PEER = "#0072b2", "#d55e00", "#009e73", "#333333"
_LEGEND = (("ours, dense", _DENSE), ("ours, N:M", _SPARSE), ("ours, recovered", _RECOVERED), ("llama.cpp", _PEER))


@dataclass(frozen=True)
class Point:
    """One contender; `tokens_per_second` None where speed was not measured."""

    name: str
    perplexity: float
    nbytes: int
    tokens_per_second: float | None


def beaten_by_bytes(points: Sequence[Point], name: str) -> int:
    """How many contenders read fewer bytes and have a lower perplexity."""
    one = next(point for point in points if point.name == name)
    return sum(other.nbytes < one.nbytes and other.perplexity < one.perplexity for other in points)


def save_plot(points: Sequence[Point], path: Path, model: str) -> None:
    """Write both charts beside each other, or the one there are figures for."""
    path.write_text(draw_plot(points, model), encoding="utf-8")


def draw_plot(points: Sequence[Point], model: str) -> str:
    """The SVG's text."""
    charts = [_chart(f"{model}: perplexity against MB read a token", "MB", points, lambda point: point.nbytes / 1e6)]
    timed = [point for point in points if point.tokens_per_second is not None]
    if timed:
        charts.append(_chart("perplexity against tokens/s", "1/s", timed, lambda point: point.tokens_per_second or 0))
    moved = [f'<g transform="translate({i * _WIDTH} 0)">{chart}</g>' for i, chart in enumerate(charts)]
    width = _WIDTH * len(charts)
    style = "text{font:11px sans-serif;fill:#333}.title{font-size:13px}.grid{stroke:#ddd}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{_HEIGHT}" '
        f'viewBox="0 0 {width} {_HEIGHT}"><style>{style}</style><rect width="100%" height="100%" fill="#fff"/>'
        f"{''.join(moved)}</svg>\n"
    )


def _colour(name: str) -> str:
    if name.startswith("llama.cpp"):
        return _PEER
    if name.endswith("recovered"):
        return _RECOVERED
    return _SPARSE if ":4" in name or "mix" in name else _DENSE


def _chart(title: str, unit: str, points: Sequence[Point], along: Callable[[Point], float]) -> str:
    """Both axes are logarithmic: what matters is how many times smaller, faster or worse."""
    x = _scale([along(point) for point in points], _LEFT, _WIDTH - _RIGHT)
    y = _scale([point.perplexity for point in points], _HEIGHT - _BOTTOM, _TOP)
    parts = [f'<text class="title" x="{_LEFT}" y="18">{escape(title)}</text>']
    for value in _ticks([point.perplexity for point in points]):
        at = y(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text text-anchor="end" x="{_LEFT - 6}" y="{at + 4:.1f}">{value:g}</text>')
    for value in _ticks([along(point) for point in points]):
        parts.append(f'<text text-anchor="middle" x="{x(value):.1f}" y="{_HEIGHT - _BOTTOM + 16}">{value:g}</text>')
    parts.append(f'<text x="{_LEFT}" y="{_HEIGHT - 8}">{unit}, logarithmic</text>')
    for point in sorted(points, key=lambda point: point.perplexity):
        at_x, at_y, colour = x(along(point)), y(point.perplexity), _colour(point.name)
        parts.append(f'<circle cx="{at_x:.1f}" cy="{at_y:.1f}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{at_x + 6:.1f}" y="{at_y - 4:.1f}" style="fill:{colour}">{escape(point.name)}</text>')
    for number, (label, colour) in enumerate(_LEGEND):
        at_y = _TOP + 12 + 15 * number
        parts.append(f'<circle cx="{_WIDTH - _RIGHT + 14}" cy="{at_y - 4}" r="4" fill="{colour}"/>')
        parts.append(f'<text x="{_WIDTH - _RIGHT + 22}" y="{at_y}">{label}</text>')
    return "".join(parts)


def _scale(values: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    """A logarithmic axis with some room at both ends."""
    low, high = math.log(min(values)), math.log(max(values))
    room = 0.05 * (high - low) or 1.0

    def at(value: float) -> float:
        return start + (math.log(value) - low + room) / (high - low + 2 * room) * (end - start)

    return at


def _ticks(values: Sequence[float]) -> list[float]:
    """1, 2 and 5 times powers of ten within the range of the values, or its ends where there is none."""
    low, high = min(values), max(values)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [factor * 10.0**power for power in powers for factor in (1, 2, 5) if low <= factor * 10.0**power <= high]
    return found or sorted({round(low, 2), round(high, 2)})
