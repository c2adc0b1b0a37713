"""`./spark-submit.sh encode`: a text encoder fine-tuned, and the embeddings of all instances, if the method has one."""

import sys

from xmcspark.command_spark import run_stage_job

if __name__ == "__main__":
    sys.exit(run_stage_job("encode"))
