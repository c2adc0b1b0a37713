"""What a stage is: one declaration from which skipping, manifests, SQL views, timings and contract tests follow.
And what a stage is given to work with."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from xmcspark.config.configuration import Config
from xmcspark.errors import StoreError
from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.runs import Run, StageRecord
from xmcspark.store.tables import TABLES


@dataclass(frozen=True)
class EarlyCheck:
    """What a stage can refuse as soon as an earlier one is done, before those in between cost anything."""

    after: str  # the stage that writes what is looked at
    check: Callable[[Context], None]


@dataclass(frozen=True)
class Stage:
    """One step from tables to tables. Same version, settings and inputs: same output, so it need not run again."""

    name: str
    version: int  # raised when the same input should give another output
    config_keys: tuple[str, ...]  # dotted keys or whole sections that decide its output
    reads: tuple[str, ...]  # tables and folders of the run
    writes: tuple[str, ...]  # tables, and folders (their names end with "/")
    run: Callable[[Context], None]
    external: Callable[[Context], Any] | None = None  # what it reads from outside the run, by listing
    reads_of: Callable[[Config], tuple[str, ...]] | None = None  # which of `reads` a configuration asks for
    writes_of: Callable[[Config], tuple[str, ...]] | None = None  # which of `writes`
    more_keys_of: Callable[[Config], tuple[str, ...]] | None = (
        None  # further settings that decide, with some others
    )
    early_check: EarlyCheck | None = None

    def needed(self, config: Config) -> tuple[str, ...]:
        return self.reads if self.reads_of is None else self.reads_of(config)

    def written(self, config: Config) -> tuple[str, ...]:
        return self.writes if self.writes_of is None else self.writes_of(config)

    def deciding_keys(self, config: Config) -> tuple[str, ...]:
        more = () if self.more_keys_of is None else self.more_keys_of(config)
        return (*self.config_keys, *more)


@dataclass
class Context:
    """A stage at work: the session, the settings, the run it belongs to, and what it leaves behind."""

    spark: SparkSession
    config: Config
    run: Run
    stage: Stage
    base: Run | None = None  # the run whose ids are kept
    key: str = ""  # of the stage, once it is known
    notes: dict[str, Any] = field(default_factory=dict)  # for the manifest: counts, cuts, estimates
    rows: dict[str, int] = field(default_factory=dict)  # of each table written
    exchanged: list[int] = field(default_factory=list)  # bytes that tasks sent each other through files

    @property
    def fs(self) -> Filesystem:
        return self.run.fs

    def read(self, table: str) -> DataFrame:
        """A table of this run, as a stage before this one wrote it."""
        if table not in self.stage.reads:
            raise StoreError(f"stage {self.stage.name} does not declare that it reads {table}")
        return read_table(self.spark, self.run, table)

    def write(self, table: str, frame: DataFrame, files: int | None = None, mode: str = "overwrite") -> int:
        """Writes a table (in `files` files if given) and returns its number of rows."""
        if table not in self.stage.writes:
            raise StoreError(f"stage {self.stage.name} does not declare that it writes {table}")
        declared = TABLES[table]
        _check_columns(declared.names, frame, table)
        counted = Observation()
        shaped = frame.select(*(F.col(c.name).cast(c.type).alias(c.name) for c in declared.columns))
        shaped = shaped.observe(counted, F.count(F.lit(1)).alias("rows"))
        if files is not None:
            shaped = shaped.coalesce(files)
        writer = shaped.write.mode(mode)
        if declared.partitioned_by:
            writer = writer.partitionBy(*declared.partitioned_by)
        writer.parquet(self.run.table(table))
        rows = int(counted.get["rows"])
        self.rows[table] = rows + (self.rows.get(table, 0) if mode == "append" else 0)
        return rows

    def write_few(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Writes a table of a few rows that the driver has, or of none: one file, no job. Columns as declared."""
        if table not in self.stage.writes:
            raise StoreError(f"stage {self.stage.name} does not declare that it writes {table}")
        self.fs.delete(self.run.table(table))
        with tempfile.TemporaryDirectory(prefix="xmcspark-empty-") as folder:
            file = Path(folder, "part-00000.parquet")
            parquet.write_table(_arrow_table(rows, to_arrow_schema(TABLES[table].schema)), file)
            self.fs.upload(file, joined(self.run.table(table), file.name))
        self.rows[table] = len(rows)

    def folder(self, name: str) -> str:
        """URI of a folder of the run that holds files other than tables; declared as `name/`."""
        if f"{name}/" not in (*self.stage.reads, *self.stage.writes):
            raise StoreError(f"stage {self.stage.name} does not declare the folder {name}/")
        return self.run.folder(name)

    def scratch(self, name: str) -> str:
        """URI of a folder for intermediate files of this stage; it goes when the run is published."""
        return joined(self.run.uri, "scratch", self.stage.name, name)

    def note(self, **facts: Any) -> None:
        """Facts for the manifest, the summary and whoever reads this stage's output."""
        self.notes.update(facts)

    def noted(self, stage: str) -> dict[str, Any]:
        """What a finished stage of this run noted."""
        return self.run.record(stage).notes


def read_table(spark: SparkSession, run: Run, table: str) -> DataFrame:
    """A table of any run, with the declared columns in the declared order."""
    declared = TABLES[table]
    path = run.table(table)
    if not run.fs.exists(path):
        raise StoreError(f"run {run.id} has no table {table}: run the stage that writes it ({path})")
    frame = spark.read.schema(declared.schema).parquet(path)
    return frame.select(*declared.names)


def stage_key(stage: Stage, context: Context) -> str:
    """Changes whenever the stage's output might: with its version, settings, inputs or outside data."""
    settings = context.config.resolved()
    outside = stage.external(context) if stage.external is not None else None
    inputs = context.run.input_keys(stage.needed(context.config))
    base = context.base.id if context.base is not None else None
    identity = [
        stage.name,
        stage.version,
        {key: _setting(settings, key) for key in stage.deciding_keys(context.config)},
        inputs,
        outside,
        base,
    ]
    text = json.dumps(identity, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _arrow_table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [[] for _ in schema]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _setting(settings: dict[str, Any], key: str) -> Any:
    value: Any = settings
    for step in key.split("."):
        value = value[step]
    return value


def _check_columns(expected: list[str], frame: DataFrame, table: str) -> None:
    if sorted(frame.columns) != sorted(expected):
        missing, extra = set(expected) - set(frame.columns), set(frame.columns) - set(expected)
        raise StoreError(f"table {table}: columns missing {sorted(missing)}, not declared {sorted(extra)}")


def record_of(context: Context, seconds: float) -> StageRecord:
    """What is remembered of a finished stage."""
    return StageRecord(
        context.stage.name,
        context.key,
        seconds,
        dict(context.rows),
        dict(context.notes),
        list(context.stage.written(context.config)),
        context.run.input_keys(context.stage.needed(context.config)),
    )
