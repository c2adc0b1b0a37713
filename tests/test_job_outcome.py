"""A script of jobs/ started by a cluster itself: where it takes its configuration from, and what it leaves for the
scheduler, which in cluster deploy mode learns only that a job failed."""

import json
import sys

import pytest

from xmcspark import command_spark
from xmcspark.errors import RefusedError


class Kept:
    """The tests' session, which a job must not stop."""

    def __init__(self, spark):
        self._spark = spark

    def __getattr__(self, name):
        return getattr(self._spark, name)

    def stop(self):
        pass


@pytest.fixture
def run(spark, tmp_path, monkeypatch):
    """`run(work, *arguments)`: (exit code, outcome)."""
    monkeypatch.setattr(command_spark, "open_session", lambda name: Kept(spark))
    monkeypatch.setattr(command_spark, "start_logging", lambda level: None)
    outcome = tmp_path / "outcomes" / "night.json"

    def make(work, *arguments):
        monkeypatch.setattr(sys, "argv", ["refresh.py", "--outcome", str(outcome), *arguments])
        code = command_spark.run_job("refresh", work)
        return code, json.loads(outcome.read_text())

    return make


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"run": {"root": "s3://bucket/runs"}, "train": {"threshold": 0.2}}))
    return path


def test_a_configuration_is_read_through_spark_and_options_are_laid_over_it(run, config):
    seen = []
    arguments = ["--config", config.as_uri(), "--date", "2026-01-31", "--set", "seed=7"]
    code, outcome = run(lambda job: seen.append(job.config), *arguments)
    assert (code, outcome) == (0, {"job": "refresh", "exit_code": 0, "message": ""})
    assert (seen[0].train.threshold, seen[0].run.date, seen[0].seed) == (0.2, "2026-01-31", 7)
    assert seen[0].run.root == "s3://bucket/runs"


def test_the_outcome_has_the_exit_code_and_the_reason(run, config):
    def refuse(job):
        raise RefusedError("P@1 dropped")

    code, outcome = run(refuse, "--config", str(config))
    assert code == 6
    assert outcome == {"job": "refresh", "exit_code": 6, "message": "P@1 dropped"}


def test_a_configuration_that_is_not_there_or_wrong_ends_with_2(run, config):
    code, outcome = run(print, "--config", str(config.with_name("other.json")))
    assert (code, outcome["exit_code"]) == (2, 2)
    assert "other.json" in outcome["message"]
    _, outcome = run(print, "--config", str(config), "--set", "train.treshold=1")
    assert outcome["exit_code"] == 2
    assert "train.treshold" in outcome["message"]


def test_an_outcome_that_cannot_be_written_does_not_hide_how_the_job_ended(run, config, tmp_path):
    (tmp_path / "file").touch()
    code, _ = run(lambda job: None, "--config", str(config))
    assert code == 0
    wanted = ["--outcome", str(tmp_path / "file" / "below.json")]  # the last one counts
    assert run(lambda job: None, "--config", str(config), *wanted)[0] == 0
