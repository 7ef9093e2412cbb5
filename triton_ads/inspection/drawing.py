"""The two parts of a split and the state between them, drawn: as text for a terminal, as SVG for a page.

Each operator that multiplies matrices is a box in the part that holds it, in the order of the model; its size is its
FLOPs, on one scale for both parts.
"""

import math
from dataclasses import dataclass
from html import escape
from pathlib import Path, PurePath

from rich.console import Console

from triton_ads.inspection.split import FLOAT_BYTES, SplitDocument, by, short_name
from triton_ads.inspection.units import count, size


def show_drawing(title: str, report: SplitDocument, console: Console, picture: Path | None) -> None:
    """The text drawing, and the same as SVG in the file `picture`. A report of an older release has none."""
    if not report.operators:
        return
    console.print(text(report), highlight=False, soft_wrap=True)
    if picture:
        picture.write_text(svg(report, title))
        console.print(f"drawn in {picture}", highlight=False, soft_wrap=True)


def picture_of(picture: Path | None, tier: str, alone: bool) -> Path | None:
    """The file of one tier's drawing: FILE where it is the only one, else FILE-TIER."""
    return picture if picture is None or alone else picture.with_stem(f"{picture.stem}-{tier}")


# -- what is drawn


@dataclass(frozen=True)
class Box:
    label: str  # operator and line
    amount: int  # FLOPs, or bytes of an entry of the state
    text: str  # the amount for people


@dataclass(frozen=True)
class Column:
    title: str
    total: str
    boxes: list[Box]


def columns(report: SplitDocument) -> tuple[Column, Column, Column]:
    """User part, state, item part."""
    user, item = (
        [
            Box(_label(o.operator, o.source), flops, count(flops))
            for o in report.operators
            if (flops := o.flops_user if side == "user" else o.flops_item)
        ]
        for side in ("user", "item")
    )
    state = [
        Box(f"{entry.name} {by(entry.shape)}", FLOAT_BYTES * entry.size, size(FLOAT_BYTES * entry.size))
        for entry in report.state
    ]
    return (
        Column("once a user", f"{count(report.flops_user)} FLOPs", user),
        Column("state of a user", size(report.state_bytes), state),
        Column("for each ad", f"{count(report.flops_item)} FLOPs", item),
    )


def _label(operator: str, source: str) -> str:
    return f"{short_name(operator)} {PurePath(source).name}" if source else short_name(operator)


# -- text

_BAR = 12  # characters of the largest operator's bar
_CELL = 50


def text(report: SplitDocument) -> str:
    """Three columns of lines; bars show FLOPs, on one scale for both parts."""
    user, state, item = columns(report)
    most = max((box.amount for box in (*user.boxes, *item.boxes)), default=1)
    left = _frame(user, [_line(box, most) for box in user.boxes])
    right = _frame(item, [_line(box, most) for box in item.boxes])
    middle = [f"{state.title}: {state.total}", *(f"{_clip(box.label, 28)}  {box.text}" for box in state.boxes)]
    width = max(len(line) for line in middle) + 6
    arrows = [f" {line.center(width - 6)} " for line in middle]
    arrows = [f"─{arrows[0]}─▶ ", *(f" {line}   " for line in arrows[1:])]
    height = max(len(left), len(arrows) + 1, len(right))
    blank = " " * (_CELL + 4)
    left += [blank] * (height - len(left))
    right += [""] * (height - len(right))
    between = [" " * len(arrows[0]), *arrows] + [" " * len(arrows[0])] * (height - len(arrows) - 1)
    return "\n".join(f"{a}{b}{c}".rstrip() for a, b, c in zip(left, between, right, strict=True))


def _line(box: Box, most: int) -> str:
    bar = "█" * max(1, round(_BAR * box.amount / most))
    return f"{_clip(box.label, _CELL - _BAR - 8):<{_CELL - _BAR - 8}} {box.text:>6} {bar:<{_BAR}}"


def _frame(column: Column, lines: list[str]) -> list[str]:
    title = f" {column.title}: {column.total} "
    return [
        f"┌─{title}{'─' * (_CELL + 1 - len(title))}┐",
        *(f"│ {line:<{_CELL}} │" for line in lines or ["nothing"]),
        f"└{'─' * (_CELL + 2)}┘",
    ]


def _clip(label: str, width: int) -> str:
    return label if len(label) <= width else f"{label[: width - 1]}…"


# -- SVG

_WIDTH, _GAP, _LOW, _TALL = 300, 90, 18, 150  # pixels: a column, between columns, the least and the greatest box
_TOP = 64
_COLOURS = ("#3b6ea5", "#8a8a8a", "#b5651d")


def svg(report: SplitDocument, title: str) -> str:
    """A picture of three columns; heights grow with the square root of FLOPs, so that small boxes stay readable."""
    drawn = columns(report)
    most = max((box.amount for column in (drawn[0], drawn[2]) for box in column.boxes), default=1)
    most_bytes = max((box.amount for box in drawn[1].boxes), default=1)
    parts, bottom = [], _TOP
    for index, (column, colour) in enumerate(zip(drawn, _COLOURS, strict=True)):
        x, y = 10 + index * (_WIDTH + _GAP), _TOP
        parts.append(_text(x, _TOP - 10, f"{column.title}: {column.total}", "bold"))
        for box in column.boxes:
            height = _height(box.amount, most_bytes if index == 1 else most)
            parts.append(
                f'<rect x="{x}" y="{y}" width="{_WIDTH}" height="{height}" rx="3" fill="{colour}" fill-opacity="0.18" '
                f'stroke="{colour}"><title>{escape(box.label)}: {escape(box.text)}</title></rect>'
            )
            parts.append(_text(x + 8, y + height // 2 + 4, f"{_clip(box.label, 36)}  {box.text}"))
            y += height + 4
        bottom = max(bottom, y)
    middle = (_TOP + bottom) // 2
    for index in range(2):
        start = 10 + _WIDTH + index * (_WIDTH + _GAP) + 6
        parts.append(
            f'<line x1="{start}" y1="{middle}" x2="{start + _GAP - 14}" y2="{middle}" stroke="#444" stroke-width="2" '
            f'marker-end="url(#head)"/>'
        )
    width = 20 + 3 * _WIDTH + 2 * _GAP
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{bottom + 10}" '
            f'viewBox="0 0 {width} {bottom + 10}" font-family="sans-serif" font-size="12">',
            '<defs><marker id="head" markerWidth="8" markerHeight="8" refX="6" refY="4" orient="auto">'
            '<path d="M0,0 L8,4 L0,8 z" fill="#444"/></marker></defs>',
            '<rect width="100%" height="100%" fill="white"/>',
            _text(10, 22, _sentence(report, title), "bold"),
            *parts,
            "</svg>\n",
        ]
    )


def _sentence(report: SplitDocument, title: str) -> str:
    return (
        f"{title}: N ads cost {count(report.flops_user)} + N x {count(report.flops_item)} FLOPs, "
        f"instead of N x {count(report.flops_row)}"
    )


def _height(amount: int, most: int) -> int:
    return _LOW + round((_TALL - _LOW) * math.sqrt(amount / most))


def _text(x: int, y: int, words: str, weight: str = "normal") -> str:
    return f'<text x="{x}" y="{y}" font-weight="{weight}">{escape(words)}</text>'
