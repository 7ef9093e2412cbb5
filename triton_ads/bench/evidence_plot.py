"""AUC of every contender beside the best reachable one, as an SVG that needs no package."""

from html import escape
from pathlib import Path

from triton_ads.bench.evidence_report import BEST, COLD, HIDDEN, EvidenceReport

_LEFT, _CHART, _BETWEEN, _LINE, _TOP, _BOTTOM = 190, 330, 30, 24, 52, 30
_CONTENDER, _KNOWN, _COLD = "#0072b2", "#d55e00", "#009e73"  # told apart by colour-blind readers (Okabe and Ito)


def save_plot(report: EvidenceReport, path: Path) -> None:
    path.write_text(draw_plot(report), encoding="utf-8")


def draw_plot(report: EvidenceReport) -> str:
    """The SVG's text: a chart for hard and one for easy requests, on one scale, a line a contender.

    A dot is the mean over the seeds, its bar goes from the least to the most.
    """
    names = [name for name in report.scores if name not in (BEST, COLD, HIDDEN)]
    parts = ("hard", "easy")
    values = [v for name in (*names, BEST, COLD) for part in parts for v in report.auc(name, part).values]
    low, high = min(values) - 0.005, max(values) + 0.005
    width, height = _LEFT + 2 * _CHART + _BETWEEN, _TOP + _LINE * len(names) + _BOTTOM
    drawn = []
    for row, name in enumerate(names):
        drawn.append(f'<text text-anchor="end" x="{_LEFT - 8}" y="{_at(row) + 4}">{escape(name)}</text>')
    for column, part in enumerate(parts):
        drawn += _chart(report, names, part, _LEFT + column * (_CHART + _BETWEEN), low, high)
    style = "text{font:12px sans-serif;fill:#333}.grid{stroke:#ddd}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        f'<style>{style}</style><rect width="100%" height="100%" fill="#fff"/>{"".join(drawn)}</svg>\n'
    )


def _chart(report: EvidenceReport, names: list[str], part: str, left: int, low: float, high: float) -> list[str]:
    bottom = _TOP + _LINE * len(names)

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * _CHART

    drawn = [f'<text x="{left}" y="16">AUC of cvr, {part} requests</text>']
    # Every hundredth, or every fifth one where that would be crowded.
    step = 1 if high - low < 0.06 else 2 if high - low < 0.12 else 5
    for hundredth in range(int(low * 100), int(high * 100) + 1):
        at = x(hundredth / 100)
        if at >= left and hundredth % step == 0:
            drawn.append(f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{bottom}"/>')
            drawn.append(f'<text text-anchor="middle" x="{at:.1f}" y="{bottom + 18}">{hundredth / 100:.2f}</text>')
    for name, colour, y in ((COLD, _COLD, 32), (BEST, _KNOWN, 46)):
        at = x(report.auc(name, part).mean)
        anchor = "end" if at > left + _CHART / 2 else "start"
        drawn.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP - 3}" y2="{bottom}" stroke="{colour}" stroke-width="2"/>'
            f'<text text-anchor="{anchor}" x="{at:.1f}" y="{y}" style="fill:{colour}">{name}</text>'
        )
    for row, name in enumerate(names):
        found, y = report.auc(name, part), _at(row)
        first, last = (x(bound(found.values)) for bound in (min, max))
        drawn.append(
            f'<line x1="{first:.1f}" x2="{last:.1f}" y1="{y}" y2="{y}" stroke="{_CONTENDER}" stroke-width="2"/>'
            f'<circle cx="{x(found.mean):.1f}" cy="{y}" r="4" fill="{_CONTENDER}"/>'
        )
    return drawn


def _at(row: int) -> int:
    """Height of the middle of a contender's line."""
    return _TOP + _LINE * row + _LINE // 2
