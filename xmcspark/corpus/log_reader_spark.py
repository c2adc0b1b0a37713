"""Raw logs of any format as one shape of record: our columns as text, the file, and the record as it was. What a
record may hold is not decided here (record_checks_spark.py), only whether it has the form its format asks for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from xmcspark.corpus.ingest_settings import ColumnSettings, IngestSettings
from xmcspark.errors import InputError

RAW_COLUMNS = ("query", "label_key", "label_text", "impressions", "clicks", "purchases", "dt")
RECORD_CHARS = 2000
_MALFORMED = "_xmcspark_malformed"
_SAMPLED_LINES = 100
_GLOB = re.compile(r"([\\{}\[\]*?])")


def literal(uri: str) -> str:
    """A path as Spark's readers must be given it, which otherwise take it for a pattern."""
    return _GLOB.sub(r"\\\1", uri)


def log_schema(spark: SparkSession, format: str, example: str, settings: IngestSettings) -> StructType:
    """What a reader is told to expect, from one of the files. InputError if a column that is asked for is not
    there; of JSON lines nobody knows that beforehand."""
    if format == "json":
        return StructType([StructField("value", StringType())])
    if format == "csv":
        reader = spark.read.option("header", True).option("sep", settings.delimiter).option("escape", '"')
        names = reader.csv(literal(example)).columns
        schema = StructType([StructField(name, StringType()) for name in names])
    else:
        schema = spark.read.parquet(literal(example)).schema
    check_columns(schema.names, example, settings.columns)
    return schema.add(_MALFORMED, StringType()) if format == "csv" else schema


def load_logs(
    reader: Any, format: str, schema: StructType, settings: IngestSettings, paths: Any
) -> DataFrame:
    """`reader` is a DataFrameReader or a DataStreamReader."""
    source = reader.format("text" if format == "json" else format).schema(schema)
    if format == "csv":
        source = (
            source.option("header", True)
            .option("sep", settings.delimiter)
            .option("escape", '"')  # RFC 4180: a quote in quotes is doubled
            .option("enforceSchema", False)  # a file with other columns fails instead of being misread
            .option("columnNameOfCorruptRecord", _MALFORMED)
        )
    loaded: DataFrame = source.load(paths)
    return loaded


def raw_records(logs: DataFrame, format: str, columns: ColumnSettings) -> DataFrame:
    """RAW_COLUMNS as text (null where there are none), and `file`, `record`, `malformed`."""
    logs = logs.select("*", F.col("_metadata.file_path").alias("_xmcspark_file"))
    if format == "json":
        logs = logs.where("trim(value) != ''")  # an empty line is no record
        logs = logs.withColumn("_xmcspark_json", F.from_json("value", _json_schema(columns), _JSON_OPTIONS))
        record, malformed = F.col("value"), F.col(f"_xmcspark_json.{_MALFORMED}").isNotNull()
        mapped = _mapped(columns, set(columns.given().values()), "_xmcspark_json.")
    else:
        mapped = _mapped(columns, set(logs.columns), "")
        malformed = F.col(_MALFORMED).isNotNull() if format == "csv" else F.lit(False)
        as_json = F.to_json(F.struct(*(column.alias(name) for name, column in mapped.items())))
        record = F.coalesce(F.col(_MALFORMED), as_json) if format == "csv" else as_json
    return logs.select(
        *(column.alias(name) for name, column in mapped.items()),
        F.col("_xmcspark_file").alias("file"),
        F.substring(record, 1, RECORD_CHARS).alias("record"),
        malformed.alias("malformed"),
        # Of a JSON line also what is not mapped: bytes that are no text tell of a damaged line.
        (record if format == "json" else F.lit("")).alias("line_text"),
    )


_JSON_OPTIONS = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _MALFORMED}


def _json_schema(columns: ColumnSettings) -> StructType:
    """All as text: numbers, and texts that hold numbers, are read alike."""
    names = sorted(set(columns.given().values()))
    return StructType([StructField(name, StringType()) for name in (*names, _MALFORMED)])


def _mapped(columns: ColumnSettings, there: set[str], prefix: str) -> dict[str, Column]:
    lowered = {name.lower() for name in there}
    found = {}
    for ours in RAW_COLUMNS:
        theirs = columns.given().get(ours)
        known = theirs is not None and theirs.lower() in lowered
        column = F.col(f"{prefix}`{theirs}`") if known else F.lit(None)
        found[ours] = column.cast("string")
    return found


def check_columns(there: Iterable[str], file: str, columns: ColumnSettings) -> None:
    """InputError for each column that is asked for and not there. Optional ones are asked for by another name
    than the default."""
    there = list(there)
    known = {name.lower() for name in there}
    defaults = ColumnSettings().given()
    asked = {
        ours: theirs
        for ours, theirs in columns.given().items()
        if ours in ("query", "label_key", "dt") or theirs != defaults.get(ours)
    }
    problems = [
        f"ingest.columns.{ours} is {theirs!r}"
        for ours, theirs in asked.items()
        if theirs.lower() not in known
    ]
    if problems:
        raise InputError(
            f"{file}: {'; '.join(problems)}, but there is no such column. It has {', '.join(there)}: set the keys of "
            "ingest.columns to these"
        )


def columns_seen(spark: SparkSession, format: str, file: str) -> list[str]:
    """The columns a file has; of JSON those of its first lines. For messages."""
    if format == "csv":
        return spark.read.option("header", True).csv(literal(file)).columns
    if format == "parquet":
        return spark.read.parquet(literal(file)).columns
    names: dict[str, None] = {}
    for row in spark.read.text(literal(file)).take(_SAMPLED_LINES):
        try:
            line = json.loads(row.value)
        except ValueError:
            continue
        names.update(dict.fromkeys(line if isinstance(line, dict) else ()))
    return list(names)
