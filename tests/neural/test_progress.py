"""What is told of fine-tuning and embedding, by a clock of the test's."""

import logging

import pytest

from xmcspark.neural import progress
from xmcspark.neural.progress import EmbeddingProgress, Meter


@pytest.fixture
def clock(monkeypatch):
    """now[0] is what the clock shows."""
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def steps_of(meter, clock, seconds, *, texts=64):
    for step, spent in enumerate(seconds, 1):
        clock[0] += spent
        meter.step_done(step, 1.0, texts)


def test_time_left_does_not_follow_from_a_first_step_that_waited_for_its_negatives(clock):
    told = []
    steps_of(Meter("unidec", 101, told.append), clock, [200.0, 2.0, 2.0])
    assert told[0].seconds_left == pytest.approx(100 * 200)  # nothing else is known yet
    assert told[-1].seconds_left == pytest.approx(98 * 2)
    assert told[-1].texts_per_second == pytest.approx(32)


def test_later_refreshes_count(clock):
    told = []
    steps_of(Meter("unidec", 10, told.append), clock, [50.0, 2.0, 2.0, 20.0])
    assert told[-1].seconds_left == pytest.approx(6 * 24 / 3)


def test_steps_too_short_to_tell_of_are_counted(clock):
    told = []
    steps_of(Meter("unidec", 1000, told.append), clock, [0.25] * 8)
    assert [one.step for one in told] == [4, 8]
    assert told[-1].texts_per_second == pytest.approx(256)


def embedding_told(caplog, clock, *, quiet=False):
    with caplog.at_level(logging.INFO):
        told = EmbeddingProgress(texts=1000, tokens=10_000, quiet=quiet)
        for _ in range(5):
            clock[0] += 10
            told.add(50, 1000)
    return [record.message for record in caplog.records]


def test_embedding_tells_every_half_minute_and_counts_tokens_not_texts_for_the_time_left(caplog, clock):
    assert embedding_told(caplog, clock) == ["embedding: 150 of 1,000 texts, 5 texts/s, 1 min 10 s left"]


def test_embedding_is_quiet_in_all_processes_but_one(caplog, clock):
    assert embedding_told(caplog, clock, quiet=True) == []
