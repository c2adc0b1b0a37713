"""Rates rise, then fall to nothing."""

import pytest

from xmcspark.errors import ConfigError
from xmcspark.neural.schedule import Rates, share_of_rate


@pytest.mark.parametrize("schedule", ["linear", "cosine"])
@pytest.mark.parametrize(("steps", "warmup"), [(100, 0.1), (7, 0.0), (10, 1.0), (1, 0.5)])
def test_rates_rise_then_fall_and_every_step_moves(schedule, steps, warmup):
    shares = [share_of_rate(step, steps, warmup, schedule) for step in range(steps)]
    top = shares.index(max(shares))
    assert max(shares) == pytest.approx(1)
    assert min(shares) > 0
    assert shares[: top + 1] == sorted(shares[: top + 1])
    assert shares[top:] == sorted(shares[top:], reverse=True)


def test_linear_and_cosine_are_what_they_are_called():
    assert [share_of_rate(step, 10, 0.2) for step in (0, 1, 2, 6)] == [0.5, 1.0, 1.0, 0.5]
    assert share_of_rate(6, 10, 0.2, "cosine") == pytest.approx(0.5)
    assert share_of_rate(8, 10, 0.2, "cosine") == pytest.approx(0.5 * (1 + 2**-0.5) * (2**0.5 - 1) ** 2)


def test_an_unknown_schedule_is_refused():
    with pytest.raises(ConfigError, match="choose one of linear, cosine"):
        Rates(schedule="steep")
