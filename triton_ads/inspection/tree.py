"""An identifier tree as a beam meets it, as a picture that needs no package."""

from html import escape
from pathlib import Path

from triton_ads.trie.shape import Shape

_WIDTH, _ROW, _LEFT, _RIGHT, _TOP = 640, 26, 80, 150, 44
_COLOURS = {"step": "#0072b2", "verify": "#d55e00"}


def draw_tree(shape: Shape, beam: int, path: Path) -> None:
    """Write an SVG: of every level the tokens of a step, and of a verification that begins there."""
    most = max(max(level.step_tokens, level.verify_tokens) for level in shape.levels) or 1
    parts = [f'<text class="title" x="8" y="20">tokens to run by level, beam {beam}</text>']
    for i, (name, text) in enumerate((("step", "in a step"), ("verify", "to verify all that is left"))):
        parts.append(f'<text x="{_LEFT + 90 * i}" y="36" style="fill:{_COLOURS[name]}">{escape(text)}</text>')
    for i, level in enumerate(shape.levels):
        y = _TOP + _ROW * i
        best = ", best here" if level.level == shape.best_level else ""
        parts.append(f'<text x="8" y="{y + 14}">level {level.level}</text>')
        for j, (name, tokens) in enumerate((("step", level.step_tokens), ("verify", level.verify_tokens))):
            width = tokens / most * (_WIDTH - _LEFT - _RIGHT)
            parts.append(f'<rect x="{_LEFT}" y="{y + 10 * j}" width="{width:.1f}" height="9" fill="{_COLOURS[name]}"/>')
        parts.append(
            f'<text x="{_WIDTH - _RIGHT + 6}" y="{y + 14}">'
            f"{level.step_tokens:.0f} / {level.verify_tokens:.0f}{best}</text>"
        )
    height = _TOP + _ROW * len(shape.levels) + 8
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}">'
        "<style>text{font:11px sans-serif;fill:#333}.title{font-size:13px}</style>"
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n',
        encoding="utf-8",
    )
