"""`./spark-submit.sh prune`: deletes runs that are neither served, nor kept for a rollback, nor young,
and ingested logs that were replaced."""

import sys

from xmcspark.command_spark import Job, run_job
from xmcspark.corpus.interactions_spark import delete_unused_batches
from xmcspark.corpus.log_source_spark import source_places, unused_sources
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.pruning import prune


def work(job: Job) -> None:
    settings = job.config.run
    fs = Filesystem(job.spark)
    gone = prune(fs, settings.root, settings.keep, settings.keep_days)
    print(f"{len(gone)} runs deleted{': ' if gone else ''}{', '.join(gone)}")
    places = source_places(fs, settings.root)
    old = sum(delete_unused_batches(fs, place, settings.keep_days) for place in places)
    print(f"{old} batches of ingested logs deleted that no day refers to")
    for place in unused_sources(fs, settings.root):
        print(f"{place} is read by no run that is left: delete it by hand if its logs are not wanted again")


if __name__ == "__main__":
    sys.exit(run_job("prune", work))
