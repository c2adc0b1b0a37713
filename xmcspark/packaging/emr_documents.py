"""The requests that start a job of a package on EMR: a step of a cluster on EC2, a job run of EMR Serverless. Decides
that their Spark settings are those of conf/, so that they stand in one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ARCHIVE = "environment.tar.gz"
ENVIRONMENT = (
    "environment"  # the folder that the archive is unpacked to, in every process's working directory
)
CONFIG = "config.json"


def emr_step(at: str, job: str, arguments: Sequence[str], settings: Mapping[str, str]) -> dict[str, Any]:
    """One of the `Steps` of AddJobFlowSteps. `at` is where the package lies, for example s3://bucket/xmcspark."""
    options = [part for key, value in settings.items() for part in ("--conf", f"{key}={value}")]
    command = ["spark-submit", "--deploy-mode", "cluster", "--name", f"xmcspark {job}"]
    command += ["--archives", f"{at}/{ARCHIVE}#{ENVIRONMENT}", *options]
    return {
        "Name": f"xmcspark {job}",
        "ActionOnFailure": "CONTINUE",
        "HadoopJarStep": {
            "Jar": "command-runner.jar",
            "Args": [*command, f"{at}/jobs/{job}.py", "--config", f"{at}/{CONFIG}", *arguments],
        },
    }


def emr_job_run(at: str, job: str, arguments: Sequence[str], settings: Mapping[str, str]) -> dict[str, Any]:
    """StartJobRun, without the application and the role, which are the account's."""
    given = {"spark.archives": f"{at}/{ARCHIVE}#{ENVIRONMENT}", **settings}
    return {
        "name": f"xmcspark {job}",
        "jobDriver": {
            "sparkSubmit": {
                "entryPoint": f"{at}/jobs/{job}.py",
                "entryPointArguments": ["--config", f"{at}/{CONFIG}", *arguments],
            }
        },
        "configurationOverrides": {
            "applicationConfiguration": [{"classification": "spark-defaults", "properties": given}],
            "monitoringConfiguration": {"s3MonitoringConfiguration": {"logUri": f"{at}/logs/"}},
        },
    }
