"""`./spark-submit.sh corpus`: makes instances and labels from a window of days, or from a ready corpus."""

import sys

from xmcspark.command_spark import run_stage_job

if __name__ == "__main__":
    sys.exit(run_stage_job("corpus"))
