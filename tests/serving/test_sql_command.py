"""./spark-submit.sh sql and verify as commands: what they start, what they print where, and how they end."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from jobs import submit

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def sql_options():
    return submit.parser_of("sql").parse_args(
        ["--root", "/r", "--run", "night", "-e", "SELECT ';--'", "--full-width"]
    )


def test_sql_keeps_the_terminal_and_gives_spark_its_options(sql_options, monkeypatch):
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "")
    config = submit.configuration_of(sql_options)
    command = submit.submit_command("sql", config, sql_options, ["--master", "local[2]", "--conf", "a=b c"])
    started = submit.command_at_terminal(command)
    assert started[0] == sys.executable
    assert started[2] == str(ROOT / "jobs" / "sql.py")
    given = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
    assert given[-1] == "pyspark-shell"
    assert given[given.index("a=b c") - 1] == "--conf"
    assert "local[2]" in given
    assert "-eSELECT ';--'" in started
    assert "--full-width" in started


def test_where_runs_live_and_which_one_is_meant_is_said_by_options(sql_options):
    config = submit.configuration_of(sql_options)
    assert (config.run.root, config.run.id) == ("/r", "night")


def _started(job, *arguments, **more):
    """A job on this machine."""
    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.ui.enabled": "false",
    }
    options = [item for key, value in conf.items() for item in ("--conf", f"{key}={value}")]
    command = [sys.executable, "-m", "jobs.submit", job, *arguments, "--", "--master", "local[1]", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, **more)


def test_a_pipe_of_statements_is_answered_until_one_is_wrong(cookbook_run):
    statements = (
        "SELECT count(*) AS labels\nFROM labels;\nSELECT nothing FROM labels; SELECT 'never' AS asked;\n"
    )
    done = _started("sql", "--root", cookbook_run.root, "--run", "cookbook", input=statements)
    assert done.returncode == 2, done.stderr
    assert done.stdout == "+------+\n|labels|\n+------+\n|   117|\n+------+\n\n"
    assert "sql: " in done.stderr
    assert "`nothing` cannot be resolved" in done.stderr
    assert "Traceback" not in done.stderr
    assert "functions: xmc_predict, xmc_tfidf, xmc_explain" in done.stderr
