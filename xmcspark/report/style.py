"""How the page looks: colours for light, dark and paper, and one style sheet. Text has a contrast of at least 4.5 to
what it stands on, in all of them (tests/report/test_report_style.py); marks of charts at least 3."""

from __future__ import annotations

LIGHT = {
    "page": "#f5f6f8",
    "card": "#ffffff",
    "ink": "#18202b",
    "muted": "#586273",
    "line": "#d8dde5",
    "track": "#e9ecf1",
    "mark": "#3a73c7",
    "soft": "#7990b4",
    "before": "#a1480b",
    "good": "#176639",
    "bad": "#a3222b",
    "link": "#22549d",
    "notice": "#fff3dc",
    "notice-ink": "#6e4200",
    "accept": "#e2f3e8",
}
DARK = {
    "page": "#0f1319",
    "card": "#181e27",
    "ink": "#e7ebf1",
    "muted": "#a2adbd",
    "line": "#303947",
    "track": "#27303c",
    "mark": "#4a86d8",
    "soft": "#6d84a5",
    "before": "#f0a263",
    "good": "#7fd19f",
    "bad": "#ff9a9a",
    "link": "#8fbcff",
    "notice": "#3a2c10",
    "notice-ink": "#ffd896",
    "accept": "#173323",
}
PAPER = LIGHT | {"page": "#ffffff", "muted": "#4a5361", "line": "#b9c0ca"}

_RULES = """
*, *::before, *::after { box-sizing: border-box }
html { -webkit-text-size-adjust: 100%; scroll-behavior: smooth }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, -apple-system, "Segoe UI",
  Roboto, "Helvetica Neue", "DejaVu Sans", sans-serif; font-variant-numeric: tabular-nums; overflow-wrap: break-word }
body > header, body > nav, main, body > footer { max-width: 74rem; margin: 0 auto; padding: 0 clamp(.9rem, 3vw, 2rem) }
body > header { padding-top: 2.2rem; padding-bottom: .6rem }
h1 { font-size: clamp(1.45rem, 4.5vw, 2.1rem); line-height: 1.2; margin: .1rem 0 .7rem; letter-spacing: -.015em;
  overflow-wrap: anywhere }
h2 { font-size: 1.3rem; line-height: 1.3; margin: 0 0 .3rem; letter-spacing: -.01em }
h3 { font-size: 1rem; line-height: 1.4; margin: 0 0 .4rem }
p { margin: .3rem 0 .8rem; max-width: 46rem }
a { color: var(--link) }
code { font: .92em ui-monospace, "SF Mono", Menlo, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere }
.eyebrow { margin: 0; color: var(--muted); font-size: .82rem; font-weight: 600; letter-spacing: .06em;
  text-transform: uppercase }
.muted { color: var(--muted) } .small { font-size: .86rem }
.hidden { position: absolute; width: 1px; height: 1px; margin: -1px; overflow: hidden; clip-path: inset(50%);
  white-space: nowrap }
.skip { position: absolute; left: -99rem } .skip:focus { position: static }
:focus-visible { outline: 2px solid var(--link); outline-offset: 2px }

.badge { display: inline-block; padding: .12rem .65rem; border-radius: 1rem; font-size: .86rem; font-weight: 600;
  background: var(--track); color: var(--ink) }
.badge.good { background: var(--accept); color: var(--good) }
.badge.notice { background: var(--notice); color: var(--notice-ink) }
.facts { display: grid; grid-template-columns: repeat(2, 1fr); gap: .7rem 1.2rem;
  margin: 1rem 0 0 }
.facts div { min-width: 0 } .facts dt { color: var(--muted); font-size: .82rem }
.facts dd { margin: 0; font-weight: 600; overflow-wrap: anywhere }
.callout { background: var(--notice); color: var(--notice-ink); border-radius: .6rem; padding: .8rem 1rem;
  margin: 1rem 0 0; max-width: none; white-space: pre-line }
nav ul { display: flex; flex-wrap: wrap; gap: .3rem 1.1rem; list-style: none; margin: .9rem 0 0; padding: .7rem 0;
  border-top: 1px solid var(--line); font-size: .9rem }
nav a { text-decoration: none } nav a:hover { text-decoration: underline }

section { background: var(--card); border: 1px solid var(--line); border-radius: .8rem; margin: 1rem 0;
  padding: clamp(1rem, 2.5vw, 1.6rem); min-width: 0; scroll-margin-top: .6rem }
.grid { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); gap: 1.4rem 2.2rem;
  margin-top: 1rem }
.grid > *, .beside > * { min-width: 0 }
.beside { display: flex; flex-wrap: wrap; gap: 0 2.2rem }
.beside > :first-child { flex: 1 1 42rem } .beside > :last-child { flex: 1 1 17rem }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 8.4rem), 1fr)); gap: .8rem;
  margin: 1rem 0; padding: 0; list-style: none }
.cards li { border: 1px solid var(--line); border-radius: .6rem; padding: .7rem .9rem .8rem; min-width: 0 }
.cards .name { color: var(--muted); font-size: .86rem; font-weight: 600 }
.cards .value { display: block; font-size: 1.75rem; font-weight: 650; line-height: 1.25; letter-spacing: -.02em }
.cards .value small { font-size: .95rem; font-weight: 500; letter-spacing: 0; color: var(--muted) }
.cards .note { display: block; color: var(--muted); font-size: .8rem; line-height: 1.4; min-height: 1.4em }
.cards .note.good { color: var(--good) } .cards .note.bad { color: var(--bad) }
.scroll { overflow-x: auto; margin: .8rem 0 0 }
table { border-collapse: collapse; font-size: .92rem; min-width: min(100%, 42rem) }
caption { text-align: left; color: var(--muted); font-size: .86rem; padding-bottom: .35rem; caption-side: top }
th, td { padding: .34rem .9rem .34rem 0; text-align: right; vertical-align: top; white-space: nowrap;
  border-bottom: 1px solid var(--line) }
th:last-child, td:last-child { padding-right: .2rem }
thead th { color: var(--muted); font-weight: 600; font-size: .84rem }
tbody th { font-weight: 500; white-space: normal } th:first-child, th.text { text-align: left }
tbody tr:last-child > * { border-bottom: 0 }
td small { display: block; color: var(--muted); font-size: .78rem; line-height: 1.3 }
td.text { text-align: left; white-space: normal; min-width: 14rem }

figure { margin: 0 } figcaption { font-weight: 600; font-size: .92rem; margin-bottom: .4rem }
figcaption span { display: block; font-weight: 400; color: var(--muted); font-size: .84rem; line-height: 1.45 }
svg { display: block; width: 100%; overflow: visible } svg text { fill: var(--ink); font-size: 12.5px }
svg .quiet { fill: var(--muted); font-size: 11.5px }
.mark { fill: var(--mark) } .soft { fill: var(--soft) } .track { fill: var(--track) }
.error { stroke: var(--ink); stroke-width: 1.5 } .grid-line { stroke: var(--line) }
.before { stroke: var(--before); stroke-width: 2.5 } .even { stroke: var(--muted); stroke-dasharray: 4 4 }
.dot { fill: var(--mark); fill-opacity: .55; stroke: var(--mark) }
.span { stroke: var(--soft); stroke-width: 5; stroke-linecap: round }
.key { color: var(--muted); font-size: .84rem; margin: .5rem 0 0 } .key b { color: var(--before) }

.answers { list-style: none; margin: 0; padding: 0; font-size: .92rem }
.answers li { display: flex; gap: .8rem; padding: .22rem 0; border-bottom: 1px solid var(--line) }
.answers li:last-child { border-bottom: 0 }
.answers .name { flex: 1; min-width: 0; overflow-wrap: anywhere } .answers .number { color: var(--muted) }
.answers .true .name { color: var(--good); font-weight: 600 }
.findings { margin: .6rem 0 0; padding: 0; list-style: none }
.findings li { padding: .45rem 0 .45rem 1.5rem; border-bottom: 1px solid var(--line); position: relative }
.findings li:last-child { border-bottom: 0 }
.findings li::before { content: "–"; position: absolute; left: .2rem; color: var(--muted) }
.findings .warning::before { content: "!"; color: var(--bad); font-weight: 700 }
.terms { font-size: .86rem; color: var(--muted); margin: .8rem 0 0 }
.terms dt { font-weight: 600 } .terms dd { margin: 0 0 .45rem; overflow-wrap: anywhere }
@media (min-width: 46rem) {
  .facts { grid-template-columns: repeat(auto-fill, minmax(12.6rem, 1fr)) }
  header .facts { display: flex; flex-wrap: wrap; gap: .7rem 2.6rem }
  .grid:not(:has(table)) figcaption span { min-height: 2.9em } /* charts side by side begin at the same height */
}
@media (max-width: 30rem) { table { font-size: .86rem } th, td { padding-right: .6rem } }
footer { color: var(--muted); font-size: .84rem; padding-bottom: 2.5rem !important }
"""

_PRINT = """
  html { font-size: 10pt } body { font-size: 1rem } nav, .skip { display: none }
  section { border: 0; border-top: 1px solid var(--line); border-radius: 0; padding: .8rem 0; margin: 0 }
  body > header, main, body > footer { max-width: none; padding-left: 0; padding-right: 0 }
  h2, h3, figcaption { break-after: avoid } figure, .cards li, tr, .answers, .findings li { break-inside: avoid }
  .facts { grid-template-columns: repeat(4, 1fr) } .grid { grid-template-columns: 1fr 1fr }
  .scroll { overflow: visible }
  svg, .badge, .callout { print-color-adjust: exact; -webkit-print-color-adjust: exact }
"""


def style_sheet() -> str:
    """All of it."""
    return (
        f":root {{ color-scheme: light dark; {_variables(LIGHT)} }}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ :root {{ {_variables(DARK)} }} }}\n"
        f"{_RULES.strip()}\n"
        f"@media print {{\n  :root {{ color-scheme: light; {_variables(PAPER)} }}\n{_PRINT.strip(chr(10))}\n}}\n"
    )


def _variables(colours: dict[str, str]) -> str:
    return "; ".join(f"--{name}: {colour}" for name, colour in colours.items())
