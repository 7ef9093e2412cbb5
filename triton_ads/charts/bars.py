"""Horizontal bars of several parts each, one row a thing."""

from collections.abc import Sequence
from dataclasses import dataclass

from triton_ads.charts import svg
from triton_ads.charts.axis import Linear

_ROW, _BAR = 30, 18


@dataclass(frozen=True)
class StackedBars:
    """
    Args:
        rows: (name, a value for each part).
        unit: of the values.
    """

    title: str
    parts: Sequence[str]
    rows: Sequence[tuple[str, Sequence[float]]]
    unit: str
    width: float = 560

    def document(self) -> str:
        """The SVG's text."""
        colours = svg.COLOURS[: len(self.parts)]
        left = 16 + max((svg.width_of(name) for name, _ in self.rows), default=0)
        right = self.width - 84  # the sums stand there
        legend, below = svg.legend(self.parts, colours, 16, 42, self.width - 16)
        top = below + 12
        bottom = top + _ROW * len(self.rows)
        axis = Linear.over([sum(values) for _, values in self.rows], left, right)
        body = [svg.label(16, 20, self.title, css="title"), legend]
        for tick in axis.ticks():
            at = axis.at(tick)
            body.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>')
            body.append(svg.label(at, bottom + 16, f"{tick:g}", "middle"))
        body.append(svg.label(right + 8, bottom + 16, self.unit))
        for number, (name, values) in enumerate(self.rows):
            y, done = top + _ROW * number + (_ROW - _BAR) / 2, 0.0
            body.append(svg.label(left - 8, y + _BAR - 5, name, "end"))
            for part, value, colour in zip(self.parts, values, colours, strict=True):
                x, width = axis.at(done), axis.at(done + value) - axis.at(done)
                body.append(
                    f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BAR}" fill="{colour}">'
                    f"<title>{svg.escape(name)}, {svg.escape(part)}: {value:.3g} {self.unit}</title></rect>"
                )
                done += value
            body.append(svg.label(axis.at(done) + 6, y + _BAR - 5, f"{done:.3g} {self.unit}"))
        return svg.document(self.width, bottom + 26, "".join(body), self.title)
