"""`./spark-submit.sh augment`: label texts as training instances (Gandalf), if asked for."""

import sys

from xmcspark.command_spark import run_stage_job

if __name__ == "__main__":
    sys.exit(run_stage_job("augment"))
