"""Which run a person means, for jobs that look into runs and change nothing: the one named, the one of the
configuration, or the one that is served."""

from __future__ import annotations

from pyspark.sql import SparkSession

from xmcspark.config.configuration import Config
from xmcspark.errors import StoreError
from xmcspark.flow_spark import dated, run_id_of
from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.published import published
from xmcspark.store.runs import Run


def chosen_run(spark: SparkSession, config: Config) -> Run:
    """The run that is meant; StoreError lists those there are if it is none of them."""
    fs = Filesystem(spark)
    root, wanted = fs.qualified(config.run.root), config.run.id
    if wanted is None:
        served = published(fs, root)
        if config.input.logs is not None or config.input.train is not None:
            wanted = run_id_of(dated(spark, config))
        elif served is not None:
            wanted = served.run
    runs = runs_of(fs, root)
    if wanted in runs:
        return Run(fs, root, wanted)
    what = (
        f"there is no run {wanted} in {root}" if wanted else f"no run of {root} is served, and none was named"
    )
    known = (
        f"its runs are {', '.join(runs)}: name one with --run"
        if runs
        else "it has no runs: give the root of your runs with --root or --config, or run refresh first"
    )
    raise StoreError(f"{what}; {known}")


def runs_of(fs: Filesystem, root: str) -> list[str]:
    """Ids of all runs of a root, finished or not."""
    return [entry.name for entry in fs.list(root) if fs.exists(joined(entry.uri, "run.json"))]
