"""What a person and a scheduler are told of a job that did not get through, or that did."""

import sys
from dataclasses import replace

import pytest

from xmcspark import command_spark
from xmcspark.errors import InputError
from xmcspark.refresh_spark import _next_step, _served
from xmcspark.report.data import ReportData
from xmcspark.store.runner import Outcome, summary_table
from xmcspark.store.runs import Run, StageRecord


@pytest.mark.parametrize(
    ("wrong", "code", "says"),
    [
        (
            "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n"
            ": java.lang.IllegalArgumentException: System memory must be at least 471859200\n\tat org.apache...",
            2,
            "Spark could not be started: java.lang.IllegalArgumentException: System memory must be at least 471859200",
        ),
        ("java.io.IOException: Failed to connect to host: Connection refused", 5, "Connection refused"),
    ],
)
def test_a_session_that_does_not_start_is_explained(monkeypatch, capsys, wrong, code, says):
    def fails(name):
        raise RuntimeError(wrong)

    monkeypatch.setattr(command_spark, "open_session", fails)
    monkeypatch.setattr(sys, "argv", ["train", "--resolved", "{}"])
    assert command_spark.run_job("train", lambda job: None) == code
    said = capsys.readouterr().err
    assert f"train: {says}" in said
    assert "Traceback" not in said
    assert "\tat " not in said


def test_our_errors_are_dug_out_of_sparks():
    text = "Job aborted due to stage failure\nxmcspark.errors.InputError: a.json: cut off\n\n\tat org.apache"
    assert command_spark.explained(RuntimeError(text)) == ("a.json: cut off", InputError.exit_code)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (OSError(28, "No space left on device", "/data/a.npy"), "a disk is full (/data/a.npy)"),
        (
            RuntimeError(
                "An error occurred while calling o1.parquet.\n: org.apache.spark.SparkException: Task failed while "
                "writing rows to s3://b/t.\n\tat x\nCaused by: java.io.IOException: No space left on device"
            ),
            "a disk is full: org.apache.spark.SparkException: Task failed while writing rows to s3://b/t.",
        ),
    ],
)
def test_a_full_disk_is_named_and_worth_another_try(wrong, says):
    message, code = command_spark.explained(wrong)
    assert message.startswith(says)
    assert "Make room where run.root" in message
    assert len(message.splitlines()) == 1
    assert code == 5


class Files:
    """A filesystem in which a few files exist."""

    def __init__(self, local, *there):
        self._local, self._there = local, there

    def qualified(self, path):
        return path

    def exists(self, uri):
        return uri in self._there

    def local_path(self, uri):
        return uri if self._local else None


def test_the_total_is_that_of_the_report_with_what_is_around_the_stages():
    outcomes = [
        Outcome(StageRecord("corpus", "a", 3.0, {"instances": 5}), False),
        Outcome(StageRecord("train", "b", 9.0), True),
    ]
    lines = summary_table(outcomes, 4.0).splitlines()
    assert lines[1].split() == ["corpus", "5", "3.0", "75%"]
    assert lines[2].split() == ["train", "0", "skipped"]
    assert lines[3].split()[:3] == ["around", "1.0", "25%"]
    assert lines[4].split() == ["all", "4.0"]


def test_who_publishes_is_told_how_not_to():
    report = ReportData("r", "xr-linear", "now", 1.0, publication=3)
    assert "publication 3 of /data" in _served(report, "/data")
    assert "--set publish.enabled=false" in _served(report, "/data")
    assert _served(replace(report, publication=None), "/data") == ""


def test_the_next_step_after_a_refresh_is_one_that_works():
    manifest = "/data/r/bundle/manifest.json"
    here = _next_step(Run(Files(True, manifest), "/data", "r"))
    assert "xmcspark.load('/data/r/bundle').predict" in here
    away = _next_step(Run(Files(False, manifest), "/data", "r"))
    assert "hadoop fs -get /data/r/bundle bundle" in away
    assert "xmcspark.load('bundle').predict" in away
    unpublished = _next_step(Run(Files(True), "/data", "r"))
    assert "publish --run r --set publish.enabled=true" in unpublished
    assert "load" not in unpublished
    assert "publish --run" not in _next_step(Run(Files(True), "/data", "r"), refused=True)
