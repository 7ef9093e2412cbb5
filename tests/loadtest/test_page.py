"""The page: whole, valid, needs nothing from elsewhere, and a browser draws it."""

import re
import shutil
import struct
import subprocess
import zlib
from html.parser import HTMLParser

import pytest

from tests.loadtest.reports import contender, report
from triton_ads.loadtest.compare import compare_page
from triton_ads.loadtest.page import page

BROWSER = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
VOID = {"meta", "link", "br", "img", "input"}


class Checked(HTMLParser):
    """Raises where a tag is not closed as it was opened; keeps texts and attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag, attrs):
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += attrs

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def checked(text: str) -> Checked:
    parser = Checked()
    parser.feed(text)
    parser.close()
    assert parser.open == []
    return parser


@pytest.fixture(scope="module")
def text() -> str:
    return page(report(contender("triton-ads", 100, 9.0), contender("naive", 40, 36.0)))


@pytest.fixture(scope="module")
def comparison() -> str:
    return compare_page(report(contender("triton-ads", 100, 9.0)), report(contender("triton-ads", 120, 8.0)), "a", "b")


@pytest.mark.parametrize("which", ["text", "comparison"])
def test_it_is_valid_and_needs_nothing_from_elsewhere(which, request):
    found = request.getfixturevalue(which)
    assert found.startswith("<!DOCTYPE html>")
    parser = checked(found)
    names = {name for name, _ in parser.attributes}
    assert names.isdisjoint({"src", "href", "xlink:href", "srcset", "onclick", "onload"})
    assert "<script" not in found
    assert "@import" not in found
    assert "url(" not in found
    assert set(re.findall(r"https?://[^\"'<\s]+", found)) <= {"http://www.w3.org/2000/svg"}


def test_every_figure_is_there(text):
    words = "".join(checked(text).texts)
    for part in (
        "tiny", "0123456789ab", "triton-ads loadtest --naive", "2.51.0", "Poisson & Zipf", "chosen by the router",
        "100/s", "27,000/s", "20.0 / 40.0 / 80.0 ms", "0.200%",  # 4 of 2,000 were late; the refused one is no timeout
        "30,000", "7,500", "0.250", "25% of the processor time", "at most the target of 85%",
        "130.0", "40 given up by the server at the deadline", "HTTP 400: <odd> & so on",
        "2.50", "short_history", "75.0%", "90.0%", "1,010", "1.00%", "this <thing>",
        "rated load, held for 20 s", "p99, held", "p99, held, failed", "answered, held, failed",
        "110.0 requests/s failed when held: 90.00% of 2,200 in time in 20.0 s", "7 answered after the deadline",
        "the 2,000 requests of the window", "31 that were sent", "2 of the server's own watchdog",
        "queue", "compute", "cores in use", "MB allocated", "deadline 100 ms", "rated 100/s",
    ):  # fmt: skip
        assert part in words, part


def test_every_rate_is_a_row_with_its_phase(text):
    rows = [re.findall(r"<td[^>]*>([^<]*)</td>", row) for row in re.findall(r"<tr>(.*?)</tr>", text)]
    ours = [row[:5] + row[9:10] for row in rows if len(row) == 11][:7]
    assert ours == [
        ["50.0", "rising", "10.0", "500", "500", "yes"],
        ["100.0", "rising", "10.0", "1,000", "1,000", "yes"],
        ["100.0", "held", "20.0", "2,000", "2,000", "yes"],
        ["110.0", "rising", "10.0", "1,100", "1,100", "yes"],
        ["110.0", "held", "20.0", "2,200", "2,193", "NO"],
        ["130.0", "rising", "10.0", "1,300", "1,293", "NO"],
        ["130.0", "rising", "10.0", "1,300", "1,293", "NO"],
    ]


def test_a_rated_load_that_rests_on_little_is_told():
    whole = contender("triton-ads", 100, 9.0)
    assert whole.held is not None
    short = whole.held.window.model_copy(update={"seconds": 2.2, "requests": 169})
    words = "".join(
        checked(page(report(whole.model_copy(update={"held": whole.held.model_copy(update={"window": short})})))).texts
    )
    assert "too short to rely on: 169 requests in 2.2 s" in words
    assert "too short" not in "".join(checked(page(report(whole))).texts)


def test_a_run_without_a_rated_load_has_a_page():
    none = contender("triton-ads", 100, 9.0).model_copy(update={"held": None, "steps": []})
    words = "".join(checked(page(report(none))).texts)
    assert "no rate held" in words


def pixels(path) -> list[bytes]:
    """The rows of a PNG of 8 bits, unfiltered where the filter is none, else as they are: enough to see what varies."""
    content, data, at = path.read_bytes(), b"", 8
    width, _height = struct.unpack_from(">II", content, 16)
    while at < len(content):
        (length,) = struct.unpack_from(">I", content, at)
        if content[at + 4 : at + 8] == b"IDAT":
            data += content[at + 8 : at + 8 + length]
        at += 12 + length
    raw = zlib.decompress(data)
    stride = len(raw) // _height
    assert stride > width
    return [raw[i : i + stride] for i in range(0, len(raw), stride)]


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed: the page was not opened in a browser")
def test_a_browser_draws_it(text, tmp_path):
    path, picture = tmp_path / "report.html", tmp_path / "report.png"
    path.write_text(text, encoding="utf-8")
    command = [str(BROWSER), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}"]
    command += ["--window-size=1240,2400"]
    done = subprocess.run([*command, f"--screenshot={picture}", path.as_uri()], capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr
    rows = pixels(picture)
    assert len(rows) == 2400
    assert len(set(rows)) > 400  # white rows are equal; texts and charts are not
    dumped = subprocess.run([*command, "--dump-dom", path.as_uri()], capture_output=True, text=True, timeout=120).stdout
    assert dumped.count("<svg") == text.count("<svg") == 13
    assert dumped.count("<polyline") == text.count("<polyline")
