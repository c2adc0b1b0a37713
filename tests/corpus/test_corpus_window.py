"""Which days are learned from and evaluated on, and the settings that say so."""

from datetime import date

import pytest

from xmcspark.config.configuration import load
from xmcspark.corpus.corpus_settings import CorpusSettings
from xmcspark.corpus.day_window import check_data, day_window
from xmcspark.errors import ConfigError, InputError

SETTINGS = CorpusSettings(window_days=10, test_days=2)
DAYS = [date(2026, 1, day) for day in range(1, 31)]


def test_the_window_ends_with_the_latest_day_or_the_run_date():
    window = day_window(SETTINGS, None, DAYS)
    assert (window.first, window.train_last, window.test_from, window.last) == (
        DAYS[20],
        DAYS[27],
        DAYS[28],
        DAYS[29],
    )
    assert day_window(SETTINGS, "2026-01-15", DAYS).last == DAYS[14]


def test_without_test_days_all_days_are_trained_on():
    window = day_window(CorpusSettings(window_days=3, test_days=0), None, DAYS)
    assert (window.first, window.train_last, window.test_from) == (DAYS[27], DAYS[29], None)


def test_a_window_without_data_is_refused_by_name():
    late = day_window(SETTINGS, "2026-02-05", DAYS)
    with pytest.raises(
        InputError, match="no logs to evaluate on from 2026-02-04 to 2026-02-05: 30 days from 2026-01-01"
    ):
        check_data(late, DAYS, DAYS)
    with pytest.raises(InputError, match="no logs to train on from 2026-01-27 to 2026-02-03"):
        check_data(late, [], DAYS)
    with pytest.raises(InputError, match="run the ingest job first"):
        day_window(SETTINGS, None, [])


def test_a_window_that_is_all_test_is_a_contradiction():
    with pytest.raises(ConfigError, match="no day is left to train on"):
        CorpusSettings(window_days=7, test_days=7)


@pytest.mark.parametrize("day", ["2026-1-5", "20260105", "yesterday", "2026-02-30"])
def test_a_run_date_is_a_day(day):
    with pytest.raises(ConfigError, match=r"run\.date is .* expected a day such as"):
        load(None, [f"run.date='{day}'"])
