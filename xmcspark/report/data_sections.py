"""What was learned from: the profile of the data, what has changed since the run published before, and which labels
go together."""

from __future__ import annotations

from html import escape

from xmcspark.report.charts import Column, columns
from xmcspark.report.data import TAIL_BELOW, Neighbours, Previous, Profile, ReportData
from xmcspark.report.distribution import Distribution, bin_name, bin_start, moved_share
from xmcspark.report.headlines import headlines
from xmcspark.report.markup import (
    BEFORE_KEY,
    NOTHING,
    Section,
    counted,
    facts,
    figure,
    grid,
    interval,
    moment,
    paragraph,
    percent,
    points,
    section,
    shortened,
    signed_points,
    table,
)

_DISTRIBUTIONS = {
    "positives_per_label": ("Training instances per label", "Share of labels with so many positives"),
    "labels_per_instance": ("Labels per training instance", "Share of instances with so many labels"),
    "text_length": ("Length of training texts", "Share of instances with so many characters"),
}


def data_profile(data: ReportData) -> Section | None:
    profile = data.profile
    if profile is None:
        return None
    before = data.previous.profile if data.previous is not None else None
    charts = [
        _histogram(title, meaning, getattr(profile, name), getattr(before, name) if before else None)
        for name, (title, meaning) in _DISTRIBUTIONS.items()
    ]
    return section(
        "data",
        "Data profile",
        facts(_profile_facts(profile)),
        grid([chart for chart in charts if chart]),
    )


def _profile_facts(profile: Profile) -> dict[str, str]:
    labels, pairs = max(1, profile.labels), max(1, profile.positives_per_label.total)
    of_label, of_row, length = profile.positives_per_label, profile.labels_per_instance, profile.text_length
    return {
        "Training instances": f"{profile.train_instances:,}",
        "Test instances": f"{profile.test_instances:,}",
        "Labels trained": f"{profile.labels:,}",
        "Labels per instance": f"{of_row.mean:.2f} (at most {of_row.largest:,})",
        "Instances per label": f"{of_label.mean:.1f} (at most {of_label.largest:,})",
        f"Tail: labels below {TAIL_BELOW} instances": percent(profile.tail_labels / labels),
        "Tail: their share of positives": percent(profile.tail_positives / pairs),
        "Characters of a text": f"{length.mean:.0f} (at most {length.largest:,})",
    }


def _histogram(title: str, meaning: str, now: Distribution, before: Distribution | None) -> str:
    if not now.size:
        return ""
    first = min(now.first, before.first) if before is not None and before.size else now.first
    bins = max(len(now.counts), len(before.counts) if before is not None else 0)
    shares, old = now.shares, before.shares if before is not None and before.size else None
    values = [
        Column(
            bin_start(place), bin_name(place), _at(shares, place), None if old is None else _at(old, place)
        )
        for place in range(first, bins)
    ]
    key = BEFORE_KEY if old is not None else ""
    return figure(title, f"{meaning}; a column reaches to the next number", columns(title, values), key)


def _at(shares: list[float], place: int) -> float:
    return shares[place] if place < len(shares) else 0.0


def drift(data: ReportData) -> Section:
    """Against the run published before, as far as that is known."""
    previous = data.previous
    if previous is None:
        return section(
            "drift",
            "Drift",
            paragraph("No run was published before this one: there is nothing to compare with."),
        )
    published = f", published {moment(previous.published_at)}" if previous.published_at else ""
    return section(
        "drift",
        "Drift against the run published before",
        paragraph(f"Compared with {previous.run}{published}. Each run was evaluated on its own test split."),
        paragraph(_label_changes(data)) if data.base is not None else "",
        grid([part for part in (_counts_table(data, previous), _metric_changes(data, previous)) if part]),
        _shift_table(data.profile, previous.profile),
    )


def _label_changes(data: ReportData) -> str:
    """As the corpus counted them, against the run whose label ids it kept."""
    new, retired = (data.notes("corpus").get(f"labels_{name}", 0) for name in ("new", "retired"))
    return f"Labels since {data.base}: {new:,} are new, {retired:,} are no longer trained."


def _counts_table(data: ReportData, previous: Previous) -> str:
    rows = []
    for name, now in data.counts.items():
        before = previous.counts.get(name)
        if before is None:
            continue
        change = f"{now / before - 1:+.1%}".replace("-", "−") if before else NOTHING
        rows.append([escape(name), f"{before:,}", f"{now:,}", change])
    return table("Sizes", ["what", "before", "now", "change"], rows) if rows else ""


def _metric_changes(data: ReportData, previous: Previous) -> str:
    shown = headlines(data.metrics)
    old = {(row.metric, row.k): row for row in previous.metrics if row.bin == "all"}
    rows = []
    for row in data.metrics:
        before = old.get((row.metric, row.k))
        if row.bin != "all" or (row.metric, row.k) not in shown or before is None:
            continue
        if row.value != row.value or before.value != before.value:
            continue
        rows.append(
            [
                escape(f"{row.metric}@{row.k}"),
                _with_interval(before.value, before.low, before.high),
                _with_interval(row.value, row.low, row.high),
                signed_points(row.value - before.value),
            ]
        )
    return (
        table("Metrics, percent, with 95% intervals", ["metric", "before", "now", "change"], rows)
        if rows
        else ""
    )


def _with_interval(value: float, low: float, high: float) -> str:
    bounds = interval(low, high)
    return points(value) + (f"<small>{bounds}</small>" if bounds else "")


def _shift_table(now: Profile | None, before: Profile | None) -> str:
    if now is None or before is None:
        return ""
    rows = []
    for name, (title, _) in _DISTRIBUTIONS.items():
        old, new = getattr(before, name), getattr(now, name)
        if old.size and new.size:
            rows.append([escape(title), f"{old.mean:.2f}", f"{new.mean:.2f}", percent(moved_share(old, new))])
    caption = "Distributions: means, and the share that moved to another column of the charts"
    return table(caption, ["what", "mean before", "mean now", "moved"], rows) if rows else ""


def label_neighbours(data: ReportData) -> Section | None:
    if not data.neighbours:
        return None
    return section(
        "neighbours",
        "Labels that go together",
        paragraph(
            f"Labels chosen by a hash of their ids, those with {TAIL_BELOW} training instances and more first. With "
            "each, what its instances most often have as well: the share of them that do, and their number."
        ),
        grid([_neighbours(one) for one in data.neighbours]),
    )


def _neighbours(one: Neighbours) -> str:
    items = "".join(
        f'<li><span class="name">{escape(shortened(other.name))}</span>'
        f'<span class="number">{percent(other.probability, 0)} · {other.together:,}</span></li>'
        for other in one.best
    )
    said = f"{counted(one.instances, 'instance')}, {counted(one.known, 'neighbour')} in all"
    return (
        f"<article><h3>{escape(shortened(one.name))}</h3>"
        f'<ol class="answers">{items}</ol><p class="small muted">{said}</p></article>'
    )
