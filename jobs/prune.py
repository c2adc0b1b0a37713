"""`./spark-submit.sh prune`: deletes runs that are neither served, nor kept for a rollback, nor young,
and ingested logs that were replaced."""

import sys

from xmcspark.command_spark import Job, run_job
from xmcspark.corpus.interactions_spark import delete_unused_batches
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.pruning import prune


def work(job: Job) -> None:
    settings = job.config.run
    fs = Filesystem(job.spark)
    gone = prune(fs, settings.root, settings.keep, settings.keep_days)
    print(f"{len(gone)} runs deleted{': ' if gone else ''}{', '.join(gone)}")
    old = delete_unused_batches(fs, settings.root, settings.keep_days)
    print(f"{old} batches of ingested logs deleted that no day refers to")


if __name__ == "__main__":
    sys.exit(run_job("prune", work))
