"""`./spark-submit.sh publish`: makes a run the one that is served; a run that was served before is rolled back to."""

import sys
import time

from xmcspark.command_spark import Job, run_job
from xmcspark.flow_spark import STAGES, dated, open_run
from xmcspark.refresh_spark import clear_scratch, write_findings
from xmcspark.store.database import register_tables
from xmcspark.store.filesystem import Filesystem
from xmcspark.store.publish import roll_back
from xmcspark.store.published import history
from xmcspark.store.runner import Outcome, run_stage
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
    started, config = time.monotonic(), dated(job.spark, job.config)
    run, base = open_run(job.spark, config, create=False)
    *others, stage = STAGES
    published = run_stage(job.spark, config, run, base, stage)
    # What the report said of a run that was refused is no longer so.
    records = (run.find_record(other.name) for other in others)
    before = [Outcome(record, skipped=True) for record in records if record is not None]
    write_findings(job.spark, config, run, base, [*before, published], started)
    clear_scratch(run)


if __name__ == "__main__":
    sys.exit(run_job("publish", work))
