"""Dates are found in the paths of logs, and only where there are any."""

from datetime import date

import pytest

from xmcspark.corpus.path_dates import date_finder

DAY = date(2026, 1, 31)


@pytest.mark.parametrize(
    "path",
    [
        "dt=2026-01-31",
        "2026/01/31/part.json",
        "2026-01-31/x",
        "2026-01-31.json.gz",
        "logs_20260131_7.csv",
        "shop=a/dt=2026-01-31/12",
        "year=2026/month=1/day=31",
        "year=2026/month=01/day=31/x",
        "2026_01_31.json",
        "export-9999/2026-01-31.json",
        "2026-13-01/2026-01-31",
    ],
)
def test_usual_layouts_are_understood(path):
    assert date_finder("auto")(path) == DAY


@pytest.mark.parametrize(
    "path",
    [
        "",
        "2026",
        "2026/01",
        "part-00000",
        "2026-02-30",
        "120260131",
        "20260131999",
        "2026-0131",
        "1026-01-31",
    ],
)
def test_other_numbers_are_no_dates(path):
    assert date_finder("auto")(path) is None


@pytest.mark.parametrize(
    ("layout", "path"),
    [
        ("dt=YYYY-MM-DD", "dt=2026-01-31/x.json"),
        ("/YYYY/MM/DD/", "2026/01/31"),
        ("shop=*/YYYYMMDD", "shop=20250101/20260131.json"),
        ("DD.MM.YYYY", "31.01.2026.csv"),
        ("v20250101/*-YYYY-MM-DD", "v20250101/eu-2026-01-31.json"),
    ],
)
def test_a_pattern_says_where_the_date_is(layout, path):
    assert date_finder(layout)(path) == DAY


@pytest.mark.parametrize(
    "path", ["2026-01-31", "x/dt=2026-01-31", "dt=2026-1-31", "dt=2026-01-32", "dt=2026"]
)
def test_what_does_not_fit_the_pattern_has_no_date(path):
    assert date_finder("dt=YYYY-MM-DD")(path) is None
