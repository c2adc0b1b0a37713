"""`./spark-submit.sh vectorize`: learns the vocabulary and turns texts into sparse rows."""

import sys

from xmcspark.command_spark import run_stage_job

if __name__ == "__main__":
    sys.exit(run_stage_job("vectorize"))
