"""`./spark-submit.sh refresh`: from logs to a published model, skipping what is finished."""

import sys

from xmcspark.command_spark import Job, run_job
from xmcspark.refresh_spark import refresh


def work(job: Job) -> None:
    refresh(job.spark, job.config)


if __name__ == "__main__":
    sys.exit(run_job("refresh", work))
