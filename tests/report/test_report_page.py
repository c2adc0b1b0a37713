"""The page is whole, loads nothing, says everything in words as well, and believes no text."""

import dataclasses
import re
from itertools import pairwise
from math import nan

import pytest
from page_outline import Outline
from report_sample import HOSTILE, sample_level, sample_metrics, sample_report, sample_stages

from xmcspark.quality.metric_sums import MetricRow
from xmcspark.report.data import ReportData, StageTime
from xmcspark.report.page import report_page

SECTIONS = [
    "quality",
    "head-to-tail",
    "examples",
    "drift",
    "warnings",
    "augmentation",
    "neighbours",
    "data",
    "tree",
    "fine-tuning",
    "time",
    "load",
]
FULL = sample_report()
BARE = ReportData("r", "xr-linear", "2026-03-01 04:05", 1.0)
NOTHING_KNOWN = sample_report(
    metrics=tuple(MetricRow("P", 1, name, nan, nan, nan, 0) for name in ("all", "q1")),
    previous=None,
    units=(),
)
every_page = pytest.mark.parametrize("data", [FULL, BARE, NOTHING_KNOWN], ids=["full", "bare", "unknown"])


def section_of(page, name):
    return re.search(rf'<section id="{name}".*?</section>', page, re.DOTALL).group()


def words_of(html):
    return " ".join(" ".join(Outline(html).text).split())


def test_all_sections_are_there_in_order_and_linked():
    outline = Outline(report_page(FULL))
    names = [attrs["id"] for _, attrs in outline.all("section")]
    assert names == SECTIONS
    assert [attrs["href"] for _, attrs in outline.all("a")] == ["#main", *(f"#{name}" for name in names)]


@every_page
def test_elements_are_closed_in_order_and_ids_are_unique(data):
    outline = Outline(report_page(data))
    ids = [attrs["id"] for _, attrs in outline.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    refers = [attrs["aria-labelledby"] for _, attrs in outline.tags if "aria-labelledby" in attrs]
    refers += [attrs["href"].removeprefix("#") for _, attrs in outline.all("a")]
    assert set(refers) <= set(ids)
    [(_, html)] = outline.all("html")
    assert html["lang"] == "en"
    assert any(attrs.get("name") == "viewport" for _, attrs in outline.all("meta"))


@every_page
def test_nothing_is_loaded_and_no_script_runs(data):
    page = report_page(data)
    outline = Outline(page)
    assert outline.all("script", "link", "img", "iframe", "object", "embed", "base", "form") == []
    for tag, attrs in outline.tags:
        assert not {"src", "srcset", "style", "action", "xlink:href"} & set(attrs), tag
        assert not any(name.startswith("on") for name in attrs), tag
        assert (attrs.get("href") or "#").startswith("#")
    style = re.search("<style>(.*?)</style>", page, re.DOTALL).group(1)
    assert not re.search(r"url\(|@import|//", style)


@every_page
def test_headings_go_down_one_level_at_a_time(data):
    levels = [int(tag[1]) for tag, _ in Outline(report_page(data)).all("h1", "h2", "h3", "h4")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


@every_page
def test_charts_and_tables_can_be_heard(data):
    outline = Outline(report_page(data))
    for _, attrs in outline.all("svg"):
        assert attrs["role"] == "img"
        assert attrs["aria-label"]
    for kind, inside in outline.children:
        if kind == "svg":
            assert inside[:2] == ["title", "desc"]
        if kind == "figure":
            assert "figcaption" in inside
        if kind == "table":
            assert "caption" in inside
    assert all(attrs.get("scope") in ("row", "col") for _, attrs in outline.all("th"))
    for _, attrs in outline.all("div"):
        if "tabindex" in attrs:
            assert attrs["role"] == "region"
            assert attrs["aria-label"]


def test_hostile_texts_stay_texts():
    page = report_page(FULL)
    outline = Outline(page)
    assert outline.all("img") == []
    assert "<img" not in page
    said = "".join(outline.text)
    assert said.count(HOSTILE) >= 6  # run, previous run, augmentation, example, answer, neighbour
    refused = report_page(sample_report(refusal=HOSTILE, publication=None))
    assert "<img" not in refused
    assert HOSTILE in "".join(Outline(refused).text)


def test_long_texts_are_cut():
    assert "w" * 299 + "…" in report_page(FULL)
    assert "w" * 300 not in report_page(FULL)


def test_headlines_have_their_interval_and_what_they_were():
    said = words_of(section_of(report_page(FULL), "quality"))
    assert "P@1 62.40 % 60.40–64.40" in said
    assert "+5.00 from 57.40" in said


def test_a_change_has_a_colour_only_where_intervals_are_apart():
    near = sample_report(previous=dataclasses.replace(FULL.previous, metrics=sample_metrics(-0.03)))
    assert 'class="note good"' in section_of(report_page(FULL), "quality")
    assert 'class="note good"' not in section_of(report_page(near), "quality")
    fell = sample_report(previous=dataclasses.replace(FULL.previous, metrics=sample_metrics(0.05)))
    assert 'class="note bad"' in section_of(report_page(fell), "quality")


def test_metrics_that_are_not_defined_are_not_numbers():
    page = report_page(NOTHING_KNOWN)
    assert "Nothing could be averaged over" in words_of(page)
    assert "nan" not in re.sub("<style>.*?</style>", "", page, flags=re.DOTALL).lower()


def test_error_bars_stand_at_the_ends_of_the_interval():
    chart = section_of(report_page(FULL), "head-to-tail")
    first = next(row for row in FULL.metrics if (row.metric, row.k, row.bin) == ("R", 5, "q1"))
    top = max(
        row.high for row in FULL.metrics if row.metric == "R" and row.k == 5 and row.bin.startswith("q")
    )
    low, high = (f"{100 * end / top:.2f}%" for end in (first.low, first.high))
    assert re.search(rf'<line class="error" x1="{low}" y1="[\d.]+" x2="{high}"', chart)


def test_stages_follow_each_other_and_fill_the_time():
    said = section_of(report_page(FULL), "time")
    marks = re.findall(r'<rect class="(?:mark|soft)" x="([\d.]+)%" y="[\d.]+" width="([\d.]+)%"', said)
    spans = [(float(x), float(width)) for x, width in marks if float(width)]
    for (x, width), (after, _) in pairwise(spans):
        assert after == pytest.approx(x + width, abs=0.02)
    assert sum(spans[-1]) == pytest.approx(100, abs=0.02)
    assert "taken over" in said  # a stage that was skipped takes none of the time


def test_a_run_that_was_refused_says_why_and_one_without_test_split_too():
    refused = words_of(report_page(sample_report(publication=None, refusal="P@1 fell from 0.5 to 0.3")))
    assert "Refused" in refused
    assert "P@1 fell from 0.5 to 0.3" in refused
    bare = words_of(report_page(BARE))
    assert "There was no test split" in bare
    assert "No run was published before" in bare
    assert "Nothing was cut" in bare


def test_an_augmentation_says_what_it_did_and_what_the_trial_found():
    said = words_of(section_of(report_page(FULL), "augmentation"))
    assert "20,100 instances were made (gandalf) and added" in said
    assert "PSP@5 30.00 34.00 +4.00" in said
    notes = {"rows": 0, "variant": "none", "trial": {"use": False, "why": "P@1 is worse", "plain": {}}}
    only = next(stage for stage in sample_stages() if stage.stage == "augment")
    page = report_page(sample_report(stages=(dataclasses.replace(only, notes=notes),)))
    assert "is not used" in words_of(section_of(page, "augmentation"))


def of_encode(**notes):
    """A report whose stage encode noted this."""
    stages = [stage for stage in sample_stages() if stage.stage == "encode"]
    return report_page(sample_report(stages=(dataclasses.replace(stages[0], notes=notes),)))


def test_fine_tuning_is_told_level_by_level():
    said = words_of(section_of(report_page(FULL), "fine-tuning"))
    assert "fine-tuned in 3,000 steps on 2 levels of outputs" in said
    assert "Embedding 384 numbers Instances embedded 149,100 Device cpu, </script>" in said
    assert "Fine-tuning 61 min 40 s" in said
    assert "1 128 1,000 0.7500 0.1250 0.5000 30 min 50 s" in said
    assert "2 21,000 2,000 0.7500 0.1250 0.6000 30 min 50 s" in said


def test_fine_tuning_that_went_on_or_kept_an_earlier_step_says_so():
    levels = [
        sample_level(0, 64, 90, kept_step=60, resumed_at=30, first_loss=None),
        sample_level(0, 64, 0, loss=None, first_loss=None, validation=None),
    ]
    said = words_of(section_of(of_encode(width=64, rows=5, device="cpu", levels=levels), "fine-tuning"))
    assert "1 level went on from a checkpoint" in said
    assert "1 64 90 – 0.1250 0.5000 (step 60)" in said
    assert "2 64 0 – – – 30 min 50 s" in said


def test_an_encoder_that_stayed_as_it_was_has_no_levels_and_a_run_without_one_no_section():
    said = words_of(section_of(of_encode(width=64, rows=5, device="cpu", levels=[]), "fine-tuning"))
    assert "taken as it is" in said
    assert "loss" not in said
    assert "fine-tuning" not in of_encode(width=0)


def test_drift_tells_sizes_labels_and_distributions():
    said = words_of(section_of(report_page(FULL), "drift"))
    assert "Labels since 2026-02-27-aa: 320 are new, 41 are no longer trained." in said
    assert "labels 20,721 21,000 +1.3%" in said
    assert "P@1 57.40 55.40–59.40 62.40 60.40–64.40 +5.00" in said
    moved = re.search(r"Labels per training instance [\d.]+ [\d.]+ ([\d.]+)%", said)
    assert float(moved.group(1)) > 0


def test_without_examples_or_neighbours_their_sections_are_left_out():
    page = report_page(sample_report(examples=(), neighbours=(), stages=sample_stages()[:1]))
    names = [attrs["id"] for _, attrs in Outline(page).all("section")]
    assert not {"examples", "neighbours", "augmentation"} & set(names)


def test_a_run_of_unidec_shows_what_was_trained_and_what_is_searched():
    pools = {
        "dual": {"labels": 812.4, "positives": 5.25},
        "classifier": {"labels": 4096.0, "positives": 6.0},
    }
    tasks = [
        {"task": name, "steps": steps, "seconds": 61.0, "loss": loss, "validation": held_out, "pools": made}
        for name, steps, loss, held_out, made in (
            ("dual", 700, 1.25, 0.5, {"dual": pools["dual"]}),
            ("unidec", 700, 1.0, 0.5, pools),
            ("unidec", 0, None, None, {}),
        )
    ]
    searched = {"labels": 21_000, "width": 768, "heads": ["dual", "classifier"], "bytes": 64_512_000}
    notes = {
        "encode": {"tasks": tasks, "width": 384, "rows": 5, "device": "cpu", "encoder": "minilm"},
        "train": {"unidec": {**searched, "search": "approximate", "recall": 0.987}},
    }
    stages = tuple(StageTime(name, 1.0, False, {}, noted) for name, noted in notes.items())
    page = report_page(sample_report(stages=stages, levels=(), units=()))
    words = words_of(section_of(page, "vectors"))
    for said in (
        "21,000",
        "768",
        "dual and classifier",
        "approximate",
        "98.7%",
        "1.250",
        "dual 812 / classifier 4,096",
        "dual 5.2 / classifier 6.0",
        "50.0%",
        "minilm",
        "Device cpu",
    ):
        assert said in words
    assert 'id="tree"' not in page
    assert 'id="fine-tuning"' not in page, "it would say that there are no levels"
