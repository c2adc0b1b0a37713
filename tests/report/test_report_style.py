"""Colours of the page: text can be read and marks can be seen, in the light, in the dark and on paper."""

import re

import pytest
from page_outline import Outline
from report_sample import sample_report

from xmcspark.report.page import report_page
from xmcspark.report.style import style_sheet

# What stands on what.
TEXT = [
    *[(ink, ground) for ink in ("ink", "muted", "link") for ground in ("page", "card")],
    *[(ink, "card") for ink in ("good", "bad", "before")],
    ("ink", "track"),
    ("good", "accept"),
    ("notice-ink", "notice"),
]
MARKS = [
    ("ink", "mark"),
    ("mark", "card"),
    ("soft", "card"),
    ("mark", "track"),
    ("before", "card"),
    ("before", "track"),
]


def schemes():
    """The variables of each `:root`, in the order of the style sheet."""
    blocks = re.findall(r":root \{(.*?)\}", style_sheet(), re.DOTALL)
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in blocks]


def luminance(colour):
    """As WCAG 2.2 defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_measured_as_it_should_be():
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("place", [0, 1, 2], ids=["light", "dark", "paper"])
def test_text_and_marks_stand_out(place):
    colours = schemes()[place]
    weak = [
        (a, b, contrast(colours[a], colours[b])) for a, b in TEXT if contrast(colours[a], colours[b]) < 4.5
    ]
    weak += [
        (a, b, contrast(colours[a], colours[b])) for a, b in MARKS if contrast(colours[a], colours[b]) < 3
    ]
    assert weak == []


def test_the_three_schemes_set_the_same_colours_and_all_that_are_used():
    light, dark, paper = (set(scheme) for scheme in schemes())
    assert light == dark == paper
    assert set(re.findall(r"var\(--([\w-]+)\)", style_sheet())) <= light


def test_dark_is_for_screens_only_and_paper_is_white():
    assert "@media screen and (prefers-color-scheme: dark)" in style_sheet()
    assert schemes()[2]["page"] == "#ffffff"


def test_every_class_of_the_page_has_a_rule():
    outline = Outline(report_page(sample_report(refusal="no", publication=None)))
    used = {name for _, attrs in outline.tags for name in (attrs.get("class") or "").split()}
    assert used - set(re.findall(r"\.([a-z][\w-]*)", style_sheet())) == set()
