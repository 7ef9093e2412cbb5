"""Lines over two axes, with levels across and marks along, as `document` or as the body of a larger one."""

from collections.abc import Sequence
from dataclasses import dataclass

from triton_ads.charts import svg
from triton_ads.charts.axis import Axis, Linear, Logarithmic

_LEFT, _RIGHT, _BOTTOM = 58, 16, 46


@dataclass(frozen=True)
class Line:
    """
    Args:
        points: (x, y); y None: a gap.
        band: (x, low, high) around them, such as the least and the most of several runs.
    """

    name: str
    points: Sequence[tuple[float, float | None]]
    colour: str
    dots: bool = True
    band: Sequence[tuple[float, float, float]] = ()


@dataclass(frozen=True)
class LineChart:
    """
    Args:
        y_label: stands above the y axis, with its unit.
        levels: (y, text): a dashed line across.
        marks: (x, text): a dashed line along.
        logarithmic: of the y axis.
        from_zero: the x axis, and a y axis that is not logarithmic, begin at 0.
        y_format: of the numbers at the y axis.
    """

    title: str
    x_label: str
    y_label: str
    lines: Sequence[Line]
    levels: Sequence[tuple[float, str]] = ()
    marks: Sequence[tuple[float, str]] = ()
    logarithmic: bool = False
    from_zero: bool = True
    y_format: str = "g"
    width: float = 560
    height: float = 340

    def document(self) -> str:
        """The SVG's text."""
        return svg.document(self.width, self.height, self.body(), self.title)

    def body(self) -> str:
        """The same without its frame, from (0, 0) to (width, height)."""
        left, right, bottom = _LEFT, self.width - _RIGHT, self.height - _BOTTOM
        names, colours = [line.name for line in self.lines], [line.colour for line in self.lines]
        legend, below = svg.legend(names, colours, left, 42, right)
        top = below + 30
        xs = [x for line in self.lines for x, _ in line.points] + [x for x, _ in self.marks]
        ys = [y for line in self.lines for _, y in line.points if y is not None] + [y for y, _ in self.levels]
        ys += [y for line in self.lines for _, *ends in line.band for y in ends]
        x, y = Linear.over(xs, left, right, self.from_zero), self._y_axis(ys, bottom, top)
        parts = [svg.label(left, 20, self.title, css="title"), legend, svg.label(6, top - 14, self.y_label)]
        for tick in y.ticks():
            parts.append(f'<line class="grid" x1="{left}" x2="{right:g}" y1="{y.at(tick):.1f}" y2="{y.at(tick):.1f}"/>')
            parts.append(svg.label(left - 6, y.at(tick) + 4, f"{tick:{self.y_format}}", "end"))
        parts += [svg.label(x.at(tick), bottom + 18, f"{tick:g}", "middle") for tick in x.ticks()]
        parts.append(svg.label((left + right) / 2, self.height - 8, self.x_label, "middle"))
        for level, text in self.levels:
            at = y.at(level)
            parts.append(
                f'<line x1="{left}" x2="{right:g}" y1="{at:.1f}" y2="{at:.1f}" stroke="#333" stroke-dasharray="5 4"/>'
            )
            parts.append(svg.label(left + 6, at - 5, text))
        for mark, text in self.marks:
            at, end = x.at(mark), x.at(mark) > (left + right) / 2
            parts.append(
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{top:.1f}" y2="{bottom:g}" stroke="#777" '
                'stroke-dasharray="2 3"/>'
            )
            parts.append(svg.label(at + (-5 if end else 5), top + 10, text, "end" if end else "start"))
        for line in self.lines:
            around = [(a, high) for a, _, high in line.band] + [(a, low) for a, low, _ in reversed(line.band)]
            path = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in around)
            parts += [f'<polygon fill="{line.colour}" fill-opacity="0.12" points="{path}"/>'] if path else []
        for line in self.lines:
            parts += _drawn(line, x, y)
        return "".join(parts)

    def _y_axis(self, values: Sequence[float], bottom: float, top: float) -> Axis:
        if self.logarithmic:
            return Logarithmic.over(values, bottom, top)
        return Linear.over(values, bottom, top, self.from_zero)


def _drawn(line: Line, x: Axis, y: Axis) -> list[str]:
    parts: list[str] = []
    run: list[tuple[float, float]] = []
    for at, value in [*line.points, (0.0, None)]:
        if value is not None:
            run.append((at, value))
            continue
        if len(run) > 1:
            path = " ".join(f"{x.at(a):.1f},{y.at(b):.1f}" for a, b in run)
            parts.append(f'<polyline class="line" stroke="{line.colour}" points="{path}"/>')
        if line.dots or len(run) == 1:
            parts += [
                f'<circle cx="{x.at(a):.1f}" cy="{y.at(b):.1f}" r="3" fill="{line.colour}">'
                f"<title>{svg.escape(line.name)}: {b:.4g} at {a:.4g}</title></circle>"
                for a, b in run
            ]
        run = []
    return parts
