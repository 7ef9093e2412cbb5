"""The pieces of an SVG: texts, colours, the whole."""

from collections.abc import Sequence
from html import escape
from typing import Literal

#: Told apart by colour-blind readers (Okabe and Ito, "Color Universal Design").
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
TEXT, GRID = "#333", "#ddd"
FONT = 12
_CHARACTER = 6.4  # mean width of a character of FONT pixels, rather more than less

Anchor = Literal["start", "middle", "end"]

_STYLE = (
    f"text{{font:{FONT}px sans-serif;fill:{TEXT}}}.title{{font-size:14px;font-weight:600}}.grid{{stroke:{GRID}}}"
    ".line{fill:none;stroke-width:2;stroke-linejoin:round}"
)


def document(width: float, height: float, body: str, label: str) -> str:
    """A whole SVG; `label` is what a screen reader says."""
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(label)}"><style>{_STYLE}</style>'
        f'<rect width="100%" height="100%" fill="#fff"/>{body}</svg>'
    )


def beside(charts: Sequence[str], width: float) -> str:
    """Bodies of charts of one width next to each other."""
    return "".join(f'<g transform="translate({i * width:g} 0)">{chart}</g>' for i, chart in enumerate(charts))


def label(x: float, y: float, text: str, anchor: Anchor = "start", colour: str = TEXT, css: str = "") -> str:
    """A text whose base line is at y."""
    extra = f' class="{css}"' if css else ""
    fill = f' style="fill:{colour}"' if colour != TEXT else ""
    return f'<text{extra} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{fill}>{escape(text)}</text>'


def width_of(text: str) -> float:
    """About how wide a text is, in pixels."""
    return _CHARACTER * len(text)


def legend(names: Sequence[str], colours: Sequence[str], left: float, top: float, right: float) -> tuple[str, float]:
    """Names with their colours, in as many lines as they need; and where the last line ends."""
    parts, x, y = [], left, top
    for name, colour in zip(names, colours, strict=True):
        width = 22 + width_of(name)
        if x > left and x + width > right:
            x, y = left, y + 18
        parts.append(f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="10" height="10" fill="{colour}"/>')
        parts.append(label(x + 14, y, name))
        x += width + 8
    return "".join(parts), y + 6
