"""`./spark-submit.sh index`: computes label features and builds the label tree."""

import sys

from xmcspark.command_spark import run_stage_job

if __name__ == "__main__":
    sys.exit(run_stage_job("index"))
