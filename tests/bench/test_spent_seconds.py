"""Seconds of work that was stopped go on from where they were kept."""

import time

from bench.spent_seconds import SpentSeconds


def test_seconds_go_on_from_those_that_were_kept(tmp_path, monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "perf_counter", lambda: now)
    first = SpentSeconds(tmp_path / "deep" / "clock.json")
    now += 5
    first.keep()
    now += 3  # lost: it is stopped here
    second = SpentSeconds(tmp_path / "deep" / "clock.json")
    assert second.now() == 5
    now += 10
    second.leave_out(4)
    assert second.now() == 11
