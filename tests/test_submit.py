"""What ./spark-submit.sh gives to the real spark-submit, and what it refuses before Spark starts."""

import json
from pathlib import Path

import pytest

from jobs import submit


def _options(*arguments):
    ours, _ = submit.split_options(list(arguments))
    return submit.parser_of("train").parse_args(ours)


def test_options_after_the_dashes_go_to_spark_submit_as_they_are():
    ours, spark = submit.split_options(["--date", "2026-01-31", "--", "--master", "yarn", "--conf", "a=b"])
    assert ours == ["--date", "2026-01-31"]
    assert spark == ["--master", "yarn", "--conf", "a=b"]


def test_without_a_master_jobs_run_on_this_machine_with_its_settings():
    options = _options("--set", "run.root=/r")
    command = submit.submit_command("train", submit.configuration_of(options), options, [])
    assert command[command.index("--master") + 1] == "local[*]"
    assert Path(command[command.index("--properties-file") + 1]).is_file()


def test_a_given_master_is_not_mixed_with_our_defaults():
    options = _options("--set", "run.root=/r")
    command = submit.submit_command("train", submit.configuration_of(options), options, ["--master", "yarn"])
    assert command.count("--master") == 1
    assert "--properties-file" not in command


@pytest.mark.parametrize("given", [["--properties-file", "emr.conf"], ["--conf", "spark.master=yarn"]])
def test_a_master_named_in_another_way_counts_too(given):
    options = _options("--set", "run.root=/r")
    command = submit.submit_command("train", submit.configuration_of(options), options, given)
    assert "--master" not in command


@pytest.mark.parametrize("given", [["--master", "local[2]"], ["--master=local[2]"]])
def test_slots_of_this_machine_can_be_chosen_without_losing_its_settings(given):
    options = _options("--set", "run.root=/r")
    command = submit.submit_command("train", submit.configuration_of(options), options, given)
    assert any(part.endswith("conf/spark-local.conf") for part in command)
    assert command.index("local[*]") < command.index(given[-1])  # the last one counts


def test_the_resolved_configuration_travels_with_the_job():
    options = _options("--set", "train.threshold=0.2", "--date", "2026-01-31", "--run", "night")
    config = submit.configuration_of(options)
    command = submit.submit_command("train", config, options, [])
    sent = json.loads(command[command.index("--resolved") + 1])
    assert sent["train"]["threshold"] == 0.2
    assert (sent["run"]["date"], sent["run"]["id"]) == ("2026-01-31", "night")
    assert Path(sent["run"]["root"]).is_absolute()


@pytest.mark.parametrize("path", ["s3://bucket/runs", "hdfs:///runs", "file:///runs"])
def test_uris_are_not_taken_for_relative_paths(path):
    assert submit.absolute(path) == path


def test_all_problems_of_a_configuration_are_reported_before_spark_starts(capsys):
    code = submit.main(
        ["train", "--set", "train.treshold=1", "--set", "predict.beam=0", "--date", "31.1.2026"]
    )
    said = capsys.readouterr().err
    assert code == 2
    assert "train.treshold" in said
    assert "predict.beam" in said
    assert "run.date" in said


def test_without_java_the_remedy_is_named(monkeypatch, capsys):
    monkeypatch.setenv("JAVA_HOME", "/nonexistent")
    assert submit.main(["train", "--set", "run.root=/r"]) == 3
    assert "install Java 17" in capsys.readouterr().err


def test_every_job_of_the_launcher_has_a_script():
    launcher = (submit.ROOT / "spark-submit.sh").read_text()
    jobs = [line.split("|")[0].strip().strip('"') for line in launcher.splitlines() if "|spark|" in line]
    assert "refresh" in jobs
    assert [job for job in jobs if not (submit.ROOT / "jobs" / f"{job}.py").is_file()] == []


def test_a_learner_that_needs_torch_is_refused_where_there_is_none(monkeypatch, capsys):
    monkeypatch.setattr("xmcspark.mach.settings.find_spec", lambda name: None)
    mlp = ["--set", "run.root=/r", "--set", "method=mach", "--set", "mach.learner=mlp"]
    assert submit.main(["refresh", *mlp]) == 2
    assert "mach.learner is 'mlp', which needs torch" in capsys.readouterr().err
    config = submit.configuration_of(_options(*mlp))
    submit.check_learner(
        "refresh", config, ["--master", "yarn"]
    )  # executors may have what this machine lacks
    submit.check_learner("predict", config, [])
    submit.check_learner("train", submit.configuration_of(_options("--set", "method=mach")), [])
