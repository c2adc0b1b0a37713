"""`./spark-submit.sh ingest`: reads new or changed days of the raw logs into the shared interactions."""

import sys

from xmcspark.command_spark import run_stage_job

if __name__ == "__main__":
    sys.exit(run_stage_job("ingest"))
