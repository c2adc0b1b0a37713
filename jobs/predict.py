"""`./spark-submit.sh predict`: predicts the best labels of the test split."""

import sys

from xmcspark.command_spark import run_stage_job

if __name__ == "__main__":
    sys.exit(run_stage_job("predict"))
