"""`./spark-submit.sh train`: trains the matchers of the tree."""

import sys

from xmcspark.command_spark import run_stage_job

if __name__ == "__main__":
    sys.exit(run_stage_job("train"))
