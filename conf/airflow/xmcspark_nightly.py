"""Airflow: the refresh every night on EMR. Copy this file and the two JSON files beside it, which `./spark-submit.sh
package --at s3://...` writes, into the DAGs folder; docs/emr.md says which variables to set. For Airflow 2 and 3."""

import json
import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

from airflow.providers.amazon.aws.hooks.s3 import S3Hook
from airflow.providers.amazon.aws.operators.emr import EmrAddStepsOperator, EmrServerlessStartJobOperator
from airflow.timetables.interval import CronDataIntervalTimetable

try:
    from airflow.sdk import DAG
    from airflow.sdk.exceptions import AirflowException, AirflowFailException
except ImportError:  # Airflow 2
    from airflow import DAG
    from airflow.exceptions import AirflowException, AirflowFailException

HERE = Path(__file__).parent
RUN_ON = os.environ.get("XMCSPARK_RUN_ON", "emr-serverless")  # or "emr": a cluster on EC2
# Exit codes of docs/run-book.md. Lost machines and interruptions are worth another try, what nobody foresaw one more;
# wrong settings or input, a refused model and a lost race stay what they are.
RETRY, RETRY_ONCE = {5, 130}, {1}
WAIT = {"wait_for_completion": True, "deferrable": False, "waiter_delay": 60, "waiter_max_attempts": 12 * 60}


class ByExitCode:
    """An operator that fails for good where another try cannot help. The job leaves its exit code in a file, because
    EMR only tells success from failure."""

    def execute(self, context, **given):  # Airflow 2 passes on a mark of its own
        try:
            return super().execute(context, **given)
        except AirflowException as error:
            outcome = self.outcome()
            code = outcome.get("exit_code")
            again = code is None or code in RETRY or (code in RETRY_ONCE and context["ti"].try_number < 2)
            message = f"exit code {code}: {outcome.get('message', 'the job left no outcome')}"
            raise (AirflowException if again else AirflowFailException)(message) from error

    def outcome(self):
        """What the job said; empty if it did not get that far."""
        arguments = self.arguments()
        uri = arguments[arguments.index("--outcome") + 1]
        bucket, key = S3Hook.parse_s3_url(uri)
        hook = S3Hook(aws_conn_id=self.aws_conn_id)
        return json.loads(hook.read_key(key, bucket)) if hook.check_for_key(key, bucket) else {}


class ServerlessJob(ByExitCode, EmrServerlessStartJobOperator):
    def arguments(self):
        return self.job_driver["sparkSubmit"]["entryPointArguments"]


class ClusterStep(ByExitCode, EmrAddStepsOperator):
    template_ext = ()  # else every argument that ends with .json would be taken for a template of ours to read

    def arguments(self):
        return self.steps[0]["HadoopJarStep"]["Args"]


def refresh():
    """The task of a night, with the Spark settings of the package."""
    if RUN_ON == "emr":
        step = json.loads((HERE / "emr-step.json").read_text())
        return ClusterStep(
            task_id="refresh", job_flow_id="{{ var.value.xmcspark_cluster }}", steps=[step], **WAIT
        )
    request = json.loads((HERE / "emr-serverless-job-run.json").read_text())
    return ServerlessJob(
        task_id="refresh",
        application_id="{{ var.value.xmcspark_application }}",
        execution_role_arn="{{ var.value.xmcspark_role }}",
        job_driver=request["jobDriver"],
        configuration_overrides=request["configurationOverrides"],
        name=request["name"],
        **WAIT,
    )


with DAG(
    dag_id="xmcspark_nightly",
    # At 3:00 for the day that is over: `ds` is that day. A plain cron string would mean the new day in Airflow 3.
    schedule=CronDataIntervalTimetable("0 3 * * *", timezone="UTC"),
    start_date=datetime(2026, 1, 1, tzinfo=timezone.utc),  # noqa: UP017 (Airflow 2 runs on Python 3.8 too)
    # Nights that were missed are made up for, oldest first, and never two at a time: each run starts from the one
    # published before it, and of two that publish at once one fails (exit code 7).
    catchup=True,
    max_active_runs=1,
    default_args={
        # A night that was refused or had no logs does not stop the next one, whose window holds the same days.
        "depends_on_past": False,
        "retries": 3,
        "retry_delay": timedelta(minutes=10),
        "retry_exponential_backoff": True,
    },
    doc_md=__doc__,
) as dag:
    refresh()
