"""A run in SQL: its tables as views with comments, views that put names to numbers, and the functions of its model.
Decides what is there of a run that did not finish: what its finished stages wrote, and for the rest the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import date

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.corpus.interactions_spark import read_interactions, read_quarantine
from xmcspark.errors import InputError, StoreError
from xmcspark.flow_spark import STAGES
from xmcspark.serving.bundle import MANIFEST
from xmcspark.serving.functions_spark import FUNCTIONS, register_functions
from xmcspark.serving.named_views import VIEWS, View
from xmcspark.store.filesystem import joined
from xmcspark.store.runs import Run
from xmcspark.store.stage import Stage, read_table
from xmcspark.store.tables import TABLES

_SHARED: dict[str, Callable[..., DataFrame]] = {
    "interactions": read_interactions,
    "quarantine": read_quarantine,
}


@dataclass
class RegisteredRun:
    """What SQL can name of a run, and what not."""

    run: Run
    names: list[str] = field(default_factory=list)  # tables and views
    functions: tuple[str, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)  # name: why it is not there


def register_run(spark: SparkSession, run: Run) -> RegisteredRun:
    """Registers all there is of a run in the session, and nothing of a run that was registered there before."""
    found = RegisteredRun(run)
    for stage in STAGES:
        _register_tables(spark, found, stage)
    _register_shared(spark, found)
    for view in VIEWS:
        _register_view(spark, found, view)
    _register_model(spark, found)
    for name in found.missing:
        if name in FUNCTIONS:
            spark.sql(f"DROP TEMPORARY FUNCTION IF EXISTS {name}")
        else:
            spark.catalog.dropTempView(name)
    return found


def _register_tables(spark: SparkSession, found: RegisteredRun, stage: Stage) -> None:
    run = found.run
    record = run.find_record(stage.name)
    for table in (name for name in stage.writes if not name.endswith("/")):
        if record is None:
            found.missing[table] = f"stage {stage.name} has not finished"
        elif table not in record.writes:
            found.missing[table] = f"stage {stage.name} did not write it with this run's settings"
        elif not run.fs.exists(run.table(table)):
            found.missing[table] = f"its files are gone ({run.table(table)})"
        else:
            _add_view(found, table, read_table(spark, run, table))


def _add_view(found: RegisteredRun, table: str, frame: DataFrame) -> None:
    """Comments are given once more: columns that are part of paths come without."""
    columns = (F.col(c.name).alias(c.name, metadata={"comment": c.comment}) for c in TABLES[table].columns)
    frame.select(*columns).createOrReplaceTempView(table)
    found.names.append(table)


def _register_shared(spark: SparkSession, found: RegisteredRun) -> None:
    """The ingested days of the run's window."""
    record = found.run.find_record("ingest")
    for table, read in _SHARED.items():
        days = sorted(record.notes.get("days", {})) if record is not None else []
        if record is None:
            found.missing[table] = "stage ingest has not finished"
        elif not days:
            found.missing[table] = "the run learned from a ready corpus, not from logs"
        else:
            place = joined(found.run.root, "interactions", record.notes["source"])
            first, last = date.fromisoformat(days[0]), date.fromisoformat(days[-1])
            _add_view(found, table, read(spark, found.run.fs, place, first, last))


def _register_view(spark: SparkSession, found: RegisteredRun, view: View) -> None:
    absent = [table for table in view.needs if table not in found.names]
    if absent:
        found.missing[view.name] = f"it needs {', '.join(absent)}"
        return
    columns = ", ".join(f"{name} COMMENT '{comment}'" for name, comment in view.columns.items())
    trained = found.run.find_record("train")
    query = view.filled({} if trained is None else trained.notes)
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW {view.name} ({columns}) AS {query}")
    found.names.append(view.name)


def _register_model(spark: SparkSession, found: RegisteredRun) -> None:
    bundle = found.run.folder("bundle")
    try:
        if not found.run.fs.exists(joined(bundle, MANIFEST)):
            raise StoreError("the run has no published bundle")
        found.functions = register_functions(spark, bundle)
    except (InputError, StoreError) as error:
        found.missing.update(dict.fromkeys(FUNCTIONS, str(error)))
