"""Puts the page of a run together: its head, links to the sections, and these in the order in which people ask."""

from __future__ import annotations

from html import escape

from xmcspark.report.augment_section import augmentation
from xmcspark.report.data import ReportData
from xmcspark.report.data_sections import data_profile, drift, label_neighbours
from xmcspark.report.findings import findings
from xmcspark.report.fine_tuning_section import fine_tuning
from xmcspark.report.markup import Section, counted, duration, facts
from xmcspark.report.quality_sections import example_predictions, head_to_tail, quality
from xmcspark.report.run_sections import left_out, stage_times, training_balance, tree_shape
from xmcspark.report.sketch_section import sketch
from xmcspark.report.style import style_sheet
from xmcspark.report.vectors_section import label_vectors


def report_page(data: ReportData) -> str:
    """One page with everything in it; nothing is loaded from elsewhere and no script runs."""
    sections = _sections(data)
    links = "".join(f'<li><a href="#{one.name}">{_short(one.name)}</a></li>' for one in sections)
    title = f"Run {escape(data.run)} · xmcspark"
    body = "\n".join(one.html for one in sections)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title}</title>
<style>
{style_sheet()}</style>
</head>
<body>
<a class="skip" href="#main">Skip to the report</a>
{_head(data)}
<nav aria-label="Sections"><ul>{links}</ul></nav>
<main id="main">
{body}
</main>
<footer><p>Made {escape(data.made_at)} UTC from the tables of the run, which can be asked more with
<code>./spark-submit.sh sql</code>.</p></footer>
</body>
</html>
"""


def _short(name: str) -> str:
    """A section's name as a link."""
    return name.replace("-", " ").capitalize()


def _sections(data: ReportData) -> list[Section]:
    made = (
        quality(data),
        head_to_tail(data),
        example_predictions(data),
        drift(data),
        left_out(data),
        augmentation(data),
        label_neighbours(data),
        data_profile(data),
        tree_shape(data),
        fine_tuning(data),
        sketch(data),
        label_vectors(data),
        stage_times(data),
        training_balance(data),
    )
    return [one for one in made if one is not None]


def _head(data: ReportData) -> str:
    badges = [_published(data)]
    warnings = sum(one.warning for one in findings({stage.stage: stage.notes for stage in data.stages}))
    if warnings:
        badges.append(f'<span class="badge notice">{counted(warnings, "warning")}</span>')
    refusal = ""
    if data.refusal is not None:
        refusal = f'<p class="callout" role="note">{escape(data.refusal)}</p>'
    told = {"Method": data.method, **data.facts, "Time": duration(data.seconds)}
    return (
        f'<header>\n<p class="eyebrow">xmcspark run</p>\n<h1>{escape(data.run)}</h1>\n'
        f"<div>{' '.join(badges)}</div>\n{refusal}{facts(told)}\n</header>"
    )


def _published(data: ReportData) -> str:
    if data.publication is not None:
        return f'<span class="badge good">Published, number {data.publication:,}</span>'
    words = "Refused" if data.refusal is not None else "Not published"
    return f'<span class="badge notice">{words}</span>'
