"""Ready corpora: Parquet tables of instances and labels. Decides how their columns become rows whose labels go by
reference: cleaned, each label once, the most relevant ones."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType

from xmcspark.config.configuration import Config
from xmcspark.corpus.input_files_spark import footers_of, found, is_small, read_parquet, spread
from xmcspark.corpus.instances_spark import instance_counts, numbered_instances, write_counted
from xmcspark.corpus.keyed_corpus_spark import KeyedCorpus, best_labels, refs_of, relevance_of
from xmcspark.corpus.row_checks_spark import as_utf8, is_odd, watched_rows
from xmcspark.store.stage import Context, read_table

_ORIGIN = "corpus"
_ROW_COLUMNS = {"id": "key", "text": "text", "labels": "keys", "relevance": "numbers?"}


def keyed_tables(context: Context) -> KeyedCorpus:
    """The corpus of `input.train`, `input.test` and `input.labels`."""
    rows, places = {}, {}
    for split in ("train", "test"):
        if uri := found(context, split):
            rows[split] = spread(context, uri, read_parquet(context, split, uri, _ROW_COLUMNS))
            places[split] = f"input.{split} ({uri})"
    by_number = all(not _has_text_refs(frame) for frame in rows.values())
    labels, place = None, "the labels of input.train and input.test"
    if uri := found(context, "labels"):
        place = f"input.labels ({uri})"
        labels = read_parquet(context, "labels", uri, {"id": "key", "text": "text"})
        by_number = by_number and not isinstance(labels.schema["id"].dataType, StringType)
    kind = "bigint" if by_number else "string"
    raw = {split: _raw_rows(frame, split, kind) for split, frame in rows.items()}
    if labels is None:
        rows_of_all = reduce(DataFrame.unionByName, raw.values())
        refs = rows_of_all.select(F.explode("refs").alias("ref")).where("ref is not null").distinct()
        table = refs.withColumn("text", F.lit(None).cast("string"))
    else:
        table = labels.select(F.col("id").cast(kind).alias("ref"), "text")
    table = table.withColumn("key", F.col("ref").cast("string"))
    numbered = by_number and uri is not None and _is_dense(context, uri, table)
    return keyed_rows(context, raw, places, table, place, numbered)


def keyed_rows(
    context: Context,
    raw: dict[str, DataFrame],
    places: dict[str, str],
    labels: DataFrame,
    place: str,
    numbered: bool,
    unique: str = "ref",
) -> KeyedCorpus:
    """The corpus of rows (split, id, text, refs, relevance or null) and a label table (ref, key, text). `places` and
    `place` say where they come from; `numbered`: the references of labels are 0..n-1, each once unless the input is
    wrong; `unique`: the column by which to look for labels that are given twice."""
    numbered = numbered and context.base is None
    watched = watched_rows(raw, context.config, places)
    clean = _clean(watched.frame, context.config).where(F.size("refs") > 0)
    small = is_small(context.fs, [uri for split in (*raw, "labels") if (uri := found(context, split))])
    if small:
        clean, labels = clean.coalesce(1), labels.coalesce(1)
    instances = None
    # Too rare labels are left out of rows, which must then be written again: most likely if any may be too rare.
    if numbered and context.config.corpus.min_label_count == 1:
        instances = write_counted(context, "instances", numbered_instances(clean, _ORIGIN), instance_counts())
        rows = read_table(context.spark, context.run, "instances").withColumnRenamed("labels", "refs")
    else:
        clean.write.mode("overwrite").parquet(context.scratch("rows"))
        rows = context.spark.read.schema(clean.schema).parquet(context.scratch("rows"))
    if small:
        rows = rows.coalesce(1)
    notes: dict[str, int] = {}
    for split, found_there in watched.judged().items():
        notes |= {f"{split}_{name}": n for name, n in found_there.items() if name != "rows"}
        notes[f"{split}_rows_read"] = found_there["rows"]
    copy = F.row_number().over(Window.partitionBy(unique).orderBy(unique)).alias("copy")
    dates = [F.lit(None).cast("date").alias(name) for name in ("first_seen", "last_seen")]
    text = _text(F.col("text"), context.config).alias("text")
    return KeyedCorpus(
        rows=rows,
        labels=labels.select("ref", "key", _place(labels).alias("place"), text, *dates, copy),
        origin=_ORIGIN,
        numbered=numbered,
        rare_labels_get_ids=True,
        notes={name: n for name, n in notes.items() if n},
        watched=watched,
        place=place,
        instances=instances,
    )


def clean_rows(context: Context, raw: DataFrame) -> DataFrame:
    """Rows of one split as they are in a KeyedCorpus."""
    return _clean(watched_rows({"": raw}, context.config, {}).frame, context.config)


def _is_dense(context: Context, uri: str, labels: DataFrame) -> bool:
    """Whether references are 0..n-1, if each is there once."""
    footers = footers_of(context.fs, uri)
    known = footers.is_dense("id") if footers is not None else None
    if known is not None:
        return known
    found = labels.agg(
        F.count(F.lit(1)).alias("n"), F.min("ref").alias("low"), F.max("ref").alias("high")
    ).collect()[0]
    return bool(found["low"] == 0 and found["high"] == found["n"] - 1)


def _place(labels: DataFrame) -> Column:
    numbers = labels.schema["ref"].dataType.simpleString() == "bigint"
    return F.col("ref") if numbers else F.lit(None).cast("bigint")


def _has_text_refs(frame: DataFrame) -> bool:
    kind = frame.schema["labels"].dataType
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, StringType)


def _raw_rows(frame: DataFrame, split: str, kind: str) -> DataFrame:
    relevance = F.col("relevance") if "relevance" in frame.columns else F.lit(None)
    return frame.select(
        F.lit(split).alias("split"),
        F.col("id").cast("string").alias("id"),
        "text",
        F.col("labels").cast(f"array<{kind}>").alias("refs"),
        relevance.cast("array<double>").alias("relevance"),
    )


def _text(text: Column, config: Config) -> Column:
    whole = as_utf8(text) if config.text.invalid == "replace" else text
    return F.substring(whole, 1, config.corpus.max_text_chars)


def _clean(rows: DataFrame, config: Config) -> DataFrame:
    """Most rows need no more than a relevance of 1."""
    text = _text(F.coalesce("text", F.lit("")), config).alias("text")
    refs = F.coalesce(F.col("refs"), F.array().cast(rows.schema["refs"].dataType))
    weight = F.coalesce(F.col("relevance"), F.array_repeat(F.lit(1.0), F.size(refs))).cast("array<float>")
    pairs = F.filter(
        F.arrays_zip(refs.alias("ref"), weight.alias("relevance")), lambda pair: pair["relevance"] > 0
    )
    most = config.corpus.max_labels_per_instance
    best = F.when(F.col("split") == "train", best_labels(pairs, most)).otherwise(best_labels(pairs, 0))
    ranked = rows.select("split", "id", text, refs.alias("refs"), weight.alias("relevance"), _odd(best))
    return ranked.select(
        "split",
        "id",
        "text",
        F.coalesce(refs_of(F.col("best")), F.col("refs")).alias("refs"),
        F.coalesce(relevance_of(F.col("best")), F.col("relevance")).alias("relevance"),
    )


def _odd(best: Column) -> Column:
    return F.when(is_odd(), best).alias("best")
