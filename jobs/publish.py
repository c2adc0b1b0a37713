"""`./spark-submit.sh publish`: makes a run the one that is served; a run that was served before is rolled back to."""

import sys

from xmcspark.command_spark import Job, run_job
from xmcspark.flow_spark import dated, open_run, stage_named
from xmcspark.store.database import register_tables
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.publish import roll_back
from xmcspark.store.published import history
from xmcspark.store.runner import run_stage
from xmcspark.store.runs import Run


def work(job: Job) -> None:
    fs, wanted = Filesystem(job.spark), job.config.run
    past = [publication.run for publication in history(fs, fs.qualified(wanted.root))]
    if wanted.id is not None and wanted.id in past:
        if past[-1] == wanted.id:
            print(f"run {wanted.id} is served already")
        else:
            roll_back(fs, Run(fs, wanted.root, wanted.id))
        if (database := job.config.publish.database) is not None:
            register_tables(job.spark, Run(fs, wanted.root, wanted.id), database)
        return
    config = dated(job.spark, job.config)
    run, base = open_run(job.spark, config, create=False)
    run_stage(job.spark, config, run, base, stage_named("publish"))


if __name__ == "__main__":
    sys.exit(run_job("publish", work))
