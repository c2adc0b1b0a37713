"""The page in a real browser: nothing sticks out at two widths, light and dark differ, and nothing is blank.

Needs `chromium` (Debian: apt-get install chromium): run with XMCSPARK_CHROMIUM=1."""

import html
import os
import re
import shutil
import struct
import subprocess
import zlib

import pytest
from report_sample import sample_report

from xmcspark.report.page import report_page
from xmcspark.report.style import DARK, LIGHT

pytestmark = pytest.mark.skipif(
    os.environ.get("XMCSPARK_CHROMIUM", "0") == "0", reason="set XMCSPARK_CHROMIUM=1: needs chromium on PATH"
)
HEIGHT, ROWS = 900, 300  # of a screenshot; of these that are looked at
WINDOW = 1500  # a window cannot be as narrow as a phone, a frame in it can
SCHEMES = {"light": LIGHT, "dark": DARK}
FRAME = """<!doctype html><html style="color-scheme: {scheme}"><body style="margin: 0">
<iframe style="border: 0; width: {width}px; height: {height}px; color-scheme: {scheme}" srcdoc="{page}"></iframe>
<pre id="seen"></pre><script>
onload = () => {{
  const inner = document.querySelector("iframe").contentWindow, root = inner.document.documentElement;
  const wide = [...root.querySelectorAll("body *")].filter(e => !e.closest(".scroll, .hidden, .skip")
    && e.getBoundingClientRect().right > inner.innerWidth + 0.5).map(e => e.tagName + "." + e.className);
  document.getElementById("seen").textContent = JSON.stringify({{
    width: inner.innerWidth, scroll: root.scrollWidth, wide: wide.slice(0, 5),
    dark: inner.matchMedia("(prefers-color-scheme: dark)").matches}});
}};
</script></body></html>"""


@pytest.fixture
def browse(tmp_path):
    """`browse(file, "--dump-dom")`: Chromium's output, from an empty profile and without a network."""
    program = shutil.which("chromium")
    assert program, "XMCSPARK_CHROMIUM=1, but there is no chromium on PATH: apt-get install chromium"

    def run(file, *options, dark=False):
        flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-background-networking",
            "--hide-scrollbars",
        ]
        flags += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={WINDOW},{HEIGHT}"]
        flags += [f"--blink-settings=preferredColorScheme={0 if dark else 1}", "--virtual-time-budget=2000"]
        done = subprocess.run(
            [program, *flags, *options, file.as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        return done.stdout

    return run


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("width", [360, 400, 1400])
def test_the_page_fits_and_shows_something(browse, tmp_path, width, scheme):
    page = html.escape(report_page(sample_report()), quote=True)
    file = tmp_path / "frame.html"
    file.write_text(FRAME.format(page=page, width=width, height=HEIGHT, scheme=scheme))
    dark = scheme == "dark"
    seen = re.search(r'<pre id="seen">(.*?)</pre>', browse(file, "--dump-dom", dark=dark)).group(1)
    assert f'"width":{width},"scroll":{width},"wide":[],"dark":{str(dark).lower()}' in html.unescape(seen)

    shot = tmp_path / "shot.png"
    browse(file, f"--screenshot={shot}", dark=dark)
    rows = [row[:width] for row in pixels(shot.read_bytes(), ROWS)]
    ground = tuple(int(SCHEMES[scheme]["page"][i : i + 2], 16) for i in (1, 3, 5))
    assert rows[2][2] == ground
    drawn = sum(pixel != ground for row in rows for pixel in row) / (width * ROWS)
    assert drawn > 0.02
    assert len({pixel for row in rows for pixel in row}) > 20


def pixels(png, most_rows):
    """The first rows of a PNG of 8 bits a channel, as (red, green, blue)."""
    width, _, depth, kind, *_ = struct.unpack(">IIBBBBB", png[16:29])
    assert depth == 8
    channels = {2: 3, 6: 4}[kind]
    data, at = b"", 8
    while at < len(png):
        (length,) = struct.unpack(">I", png[at : at + 4])
        if png[at + 4 : at + 8] == b"IDAT":
            data += png[at + 8 : at + 8 + length]
        at += length + 12
    raw, size = zlib.decompress(data), width * channels
    above, rows = bytearray(size), []
    for start in range(0, min(most_rows * (size + 1), len(raw)), size + 1):
        above = unfiltered(raw[start], bytearray(raw[start + 1 : start + 1 + size]), above, channels)
        rows.append([tuple(above[i : i + 3]) for i in range(0, size, channels)])
    return rows


def unfiltered(kind, row, above, step):
    """A row of a PNG as it was before one of its five filters."""
    for i in range(len(row)):
        left, up = row[i - step] if i >= step else 0, above[i]
        if kind == 1:
            row[i] = (row[i] + left) & 255
        elif kind == 2:
            row[i] = (row[i] + up) & 255
        elif kind == 3:
            row[i] = (row[i] + (left + up) // 2) & 255
        elif kind == 4:
            corner = above[i - step] if i >= step else 0
            guess = left + up - corner
            nearest = min((left, up, corner), key=lambda value: abs(guess - value))
            row[i] = (row[i] + nearest) & 255
    return row
