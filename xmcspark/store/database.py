"""The tables of the published run in a database of the session's catalog (Hive, Glue), for whoever reads them with
other tools. They are external: the files stay those of the run, and only tables that were made here are replaced."""

from __future__ import annotations

import logging

from pyspark.sql import SparkSession

from xmcspark.errors import StoreError
from xmcspark.store.runs import Run
from xmcspark.store.tables import TABLES, Table

log = logging.getLogger(__name__)

_MARK = "xmcspark.run"  # property of tables that were made here


def register_tables(spark: SparkSession, run: Run, database: str) -> list[str]:
    """Makes the tables of a database those of a run; their names. Table by table: a reader may meet two runs for a
    moment."""
    if spark.conf.get("spark.sql.catalogImplementation") == "in-memory":
        log.warning(
            "publish.database is %s, but the session's catalog ends with this job: start it with "
            "spark.sql.catalogImplementation=hive",
            database,
        )
    written = {name for record in run.records() for name in record.writes}
    names = [name for name in TABLES if name in written]
    spark.sql(f"CREATE DATABASE IF NOT EXISTS {_name(database)}")
    foreign = [name for name in names if not _may_replace(spark, database, name)]
    if foreign:
        raise StoreError(
            f"database {database} has tables that xmcspark did not make: {', '.join(foreign)}. They stay as they are; "
            "give publish.database another name"
        )
    for name in names:
        _replace(spark, run, database, TABLES[name])
    log.info("database %s: %d tables are those of run %s", database, len(names), run.id)
    return names


def _may_replace(spark: SparkSession, database: str, table: str) -> bool:
    if not spark.catalog.tableExists(f"{_name(database)}.{_name(table)}"):
        return True
    properties = spark.sql(f"SHOW TBLPROPERTIES {_name(database)}.{_name(table)}").collect()
    return any(row.key == _MARK for row in properties)


def _replace(spark: SparkSession, run: Run, database: str, table: Table) -> None:
    name = f"{_name(database)}.{_name(table.name)}"
    columns = ", ".join(f"{_name(c.name)} {c.type} COMMENT {_text(c.comment)}" for c in table.columns)
    partitioned = (
        f"PARTITIONED BY ({', '.join(map(_name, table.partitioned_by))})" if table.partitioned_by else ""
    )
    spark.sql(f"DROP TABLE IF EXISTS {name}")
    spark.sql(
        f"CREATE TABLE {name} ({columns}) USING parquet {partitioned} LOCATION {_text(run.table(table.name))} "
        f"COMMENT {_text(table.comment)} TBLPROPERTIES ({_text(_MARK)} = {_text(run.id)})"
    )
    if table.partitioned_by:
        spark.sql(f"MSCK REPAIR TABLE {name}")


def _name(identifier: str) -> str:
    return f"`{identifier}`"


def _text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
