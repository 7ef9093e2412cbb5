"""A page of HTML in one file: no script, no font, no picture from elsewhere."""

from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;color:#222;background:#fff;max-width:1180px;margin:0 auto;padding:24px}
h1{font-size:26px;margin:0 0 4px}h2{font-size:20px;margin:36px 0 8px;border-bottom:1px solid #ddd;padding-bottom:4px}
h3{font-size:16px;margin:20px 0 6px}p{margin:6px 0 12px;max-width:75em}
.facts{display:flex;flex-wrap:wrap;gap:12px;margin:16px 0}
.fact{border:1px solid #ddd;border-radius:8px;padding:10px 16px;min-width:150px}
.fact b{display:block;font-size:22px;font-weight:600}.fact span{color:#555;font-size:13px}
table{border-collapse:collapse;margin:8px 0 16px;font-size:14px;font-variant-numeric:tabular-nums}
th,td{padding:4px 12px;white-space:nowrap;border-bottom:1px solid #e5e5e5;text-align:right;vertical-align:top}
th{color:#555;font-weight:600}th:first-child,td:first-child{text-align:left}
td.text,th.text{text-align:left;white-space:normal}.bad{color:#a40000;font-weight:600}.good{color:#006b3c;font-weight:600}
.charts{display:flex;flex-wrap:wrap;gap:12px 32px;align-items:flex-start}.charts svg{max-width:100%;height:auto}
.wide{overflow-x:auto}
.quiet{color:#555;font-size:13px}code{background:#f3f3f3;padding:1px 5px;border-radius:4px}
"""


def document(title: str, body: Iterable[str]) -> str:
    """The whole page."""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{''.join(body)}\n</body>\n</html>\n"
    )


def facts(found: Sequence[tuple[str, str]]) -> str:
    """Figures and what they are, in boxes."""
    boxes = "".join(f'<div class="fact"><b>{escape(v)}</b><span>{escape(name)}</span></div>' for v, name in found)
    return f'<div class="facts">{boxes}</div>\n'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], texts: Sequence[int] = ()) -> str:
    """Cells are plain text; the columns `texts` are aligned as such, besides the first."""

    def cells(tag: str, values: Sequence[str]) -> str:
        return "".join(f"<{tag}{_css(i in texts, value)}>{escape(value)}</{tag}>" for i, value in enumerate(values))

    body = "".join(f"<tr>{cells('td', row)}</tr>\n" for row in rows)
    top = f"<thead><tr>{cells('th', head)}</tr></thead>\n" if any(head) else ""
    return f'<div class="wide"><table>\n{top}<tbody>\n{body}</tbody></table></div>\n'


def paragraph(text: str, css: str = "") -> str:
    return f"<p{f' class={chr(34)}{css}{chr(34)}' if css else ''}>{escape(text)}</p>\n"


def heading(text: str, level: int = 2) -> str:
    return f"<h{level}>{escape(text)}</h{level}>\n"


def charts(drawn: Sequence[str]) -> str:
    return f'<div class="charts">{"".join(drawn)}</div>\n'


def _css(text: bool, value: str) -> str:
    names = [name for name, given in (("text", text), ("bad", value == "NO"), ("good", value == "yes")) if given]
    return f' class="{" ".join(names)}"' if names else ""
