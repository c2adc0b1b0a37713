"""The Airflow DAG: with Airflow where it is installed, and everywhere with stand-ins for its operators, which is enough
to see what it starts and when it tries again."""

import importlib.util
import json
import re
import sys
import uuid
from datetime import timedelta
from types import ModuleType, SimpleNamespace

import pytest

from jobs.submit import parser_of


class FailedError(Exception):
    """Airflow tries again."""


class FinalError(Exception):
    """Airflow does not."""


class Operator:
    """Keeps what it was given; fails as EMR's operators do."""

    aws_conn_id = "aws_default"

    def __init__(self, **given):
        vars(self).update(given)
        Dag.open.tasks.append(self)

    def execute(self, context):
        raise FailedError("the step failed")


class Dag:
    open = None

    def __init__(self, **given):
        vars(self).update(given)
        self.tasks = []

    def __enter__(self):
        Dag.open = self
        return self

    def __exit__(self, *error):
        Dag.open = None


class Storage:
    """S3 with one outcome, or none."""

    outcome = None

    def __init__(self, aws_conn_id):
        pass

    @staticmethod
    def parse_s3_url(uri):
        return tuple(uri.removeprefix("s3://").split("/", 1))

    def check_for_key(self, key, bucket):
        return bucket == "bucket" and key.startswith("x/outcomes/") and self.outcome is not None

    def read_key(self, key, bucket):
        return json.dumps(self.outcome)


STAND_INS = {
    "airflow": {},
    "airflow.sdk": {"DAG": Dag},
    "airflow.sdk.exceptions": {"AirflowException": FailedError, "AirflowFailException": FinalError},
    "airflow.timetables.interval": {"CronDataIntervalTimetable": lambda cron, timezone: cron},
    "airflow.providers.amazon.aws.hooks.s3": {"S3Hook": Storage},
    "airflow.providers.amazon.aws.operators.emr": {
        "EmrAddStepsOperator": type("Steps", (Operator,), {}),
        "EmrServerlessStartJobOperator": type("Job", (Operator,), {}),
    },
}


def _dag_of(package):
    path = package / "airflow" / "xmcspark_nightly.py"
    spec = importlib.util.spec_from_file_location("xmcspark_nightly", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.dag


@pytest.fixture(params=["emr", "emr-serverless"])
def package(request, write, monkeypatch):
    monkeypatch.setenv("XMCSPARK_RUN_ON", request.param)
    return write(at="s3://bucket/x")[0]


@pytest.fixture
def dag(package, monkeypatch):
    for name, content in STAND_INS.items():
        module = ModuleType(name)
        vars(module).update(content)
        monkeypatch.setitem(sys.modules, name, module)
    return _dag_of(package)


def _ends(dag, outcome, attempt=1):
    """The kind of failure when the job left this outcome."""
    Storage.outcome = outcome
    with pytest.raises((FailedError, FinalError)) as raised:
        dag.tasks[0].execute({"ti": SimpleNamespace(try_number=attempt)})
    return raised.type


def test_nights_run_one_at_a_time_and_missed_ones_are_made_up_for(dag):
    assert dag.catchup is True
    assert dag.max_active_runs == 1
    assert dag.default_args["depends_on_past"] is False
    assert dag.default_args["retry_delay"] >= timedelta(minutes=1)


def test_the_launcher_takes_the_command_line_of_a_night(dag):
    arguments = dag.tasks[0].arguments()
    options = parser_of("refresh").parse_args(arguments[arguments.index("--config") :])
    assert options.date == "{{ ds }}"
    assert options.config == "s3://bucket/x/config.json"
    assert options.outcome.startswith("s3://bucket/x/outcomes/")


@pytest.mark.parametrize("code", [2, 3, 4, 6, 7])
def test_what_another_try_cannot_help_fails_for_good(dag, code):
    assert _ends(dag, {"exit_code": code, "message": "why"}) is FinalError


@pytest.mark.parametrize("code", [5, 130])
def test_lost_machines_and_interruptions_are_tried_again(dag, code):
    assert _ends(dag, {"exit_code": code, "message": "why"}, attempt=3) is FailedError


def test_what_nobody_foresaw_is_tried_once_more(dag):
    unforeseen = {"exit_code": 1, "message": "why"}
    assert [_ends(dag, unforeseen, attempt) for attempt in (1, 2)] == [FailedError, FinalError]


def test_a_job_that_left_no_outcome_is_tried_again(dag):
    assert _ends(dag, None) is FailedError


def test_airflow_itself_takes_the_dag(package):
    pytest.importorskip("airflow.providers.amazon")
    task = _dag_of(package).get_task("refresh")
    names = {name: name for name in ("xmcspark_cluster", "xmcspark_application", "xmcspark_role")}
    macros = SimpleNamespace(uuid=uuid)
    task.render_template_fields({"ds": "2026-01-31", "macros": macros, "var": {"value": names}})
    options = parser_of("refresh").parse_args(task.arguments()[task.arguments().index("--config") :])
    assert options.date == "2026-01-31"
    assert re.fullmatch(r"s3://bucket/x/outcomes/2026-01-31-[0-9a-f-]{36}\.json", options.outcome)
    assert task.retries == 3
