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
    what = why_no_choice(fs, root, wanted)
    known = (
        f"its runs are {', '.join(runs)}: name one with --run"
        if runs
        else "it has no runs: give the root of your runs with --root or --config, or run refresh first"
    )
    raise StoreError(f"{what}; {known}")


def why_no_choice(fs: Filesystem, root: str, wanted: str | None) -> str:
    """What is the matter with a run that is not one of `runs_of`."""
    if wanted is None:
        return f"no run of {root} is served, and none was named"
    if fs.exists(joined(root, wanted, "run.json")):
        return (
            f"no stage of run {wanted} in {root} has finished, so there is nothing to look at: run the job that "
            "started it again, it goes on where it was"
        )
    return f"there is no run {wanted} in {root}"


def runs_of(fs: Filesystem, root: str) -> list[str]:
    """Ids of the runs of a root of which some stage has finished: of others there is nothing but their folder."""
    return [
        entry.name
        for entry in fs.list(root)
        if fs.exists(joined(entry.uri, "run.json")) and fs.list(joined(entry.uri, "stages"))
    ]
