"""Corpora in the Extreme Classification Repository's formats: JSON lines, or raw texts with sparse label rows. Rows and
labels refer to each other by line, so each file is read by one task that counts lines, and parsed as it goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from xmcspark.corpus import repository_format as lines
from xmcspark.corpus.given_corpus_spark import GivenCorpus
from xmcspark.corpus.given_rows_spark import GivenRows, GivenSplit
from xmcspark.corpus.input_files_spark import clear_read_errors, format_of, found, is_small
from xmcspark.errors import InputError
from xmcspark.store.direct_tables import FrameRows
from xmcspark.store.filesystem import Filesystem, joined
from xmcspark.store.session import session_settings
from xmcspark.store.stage import Context

_RAW_TEXT_ADVICE = (
    "it holds bag-of-words features, and xmcspark learns from texts: take the dataset's raw text (trn.json.gz, "
    "tst.json.gz, lbl.json.gz, or a file with one text a line)"
)


def given_repository(context: Context) -> GivenCorpus:
    """The corpus of `input.train`, `input.test` and `input.labels`, which must be given here."""
    labels_uri = found(context, "labels")
    if labels_uri is None:
        raise InputError(
            "input.labels is not given: rows of text formats refer to labels by line; give lbl.json.gz or the file "
            "with one label text a line"
        )
    labels = _label_table(context, labels_uri)
    splits, places = [], {}
    for split in ("train", "test"):
        if uri := found(context, split):
            rows = _split_rows(context, split, uri).withColumnRenamed("refs", "labels")
            splits.append(GivenSplit(split, FrameRows(rows), ("id", "text", "labels", "relevance"), "bigint"))
            places[split] = f"input.{split} ({uri})"
    return GivenCorpus(
        rows=GivenRows(tuple(splits)),
        labels=labels,
        places=places,
        place=f"input.labels ({labels_uri})",
        numbered=labels.count(),
        unique="key",
        small=is_small(context.fs, [uri for name in (*places, "labels") if (uri := found(context, name))]),
    )


def files_of(fs: Filesystem, split: str, uri: str) -> list[str]:
    """The files that a split is read from: itself and, for raw texts, the one with the labels."""
    if format_of(fs, uri, split) == "json":
        return [uri]
    folder, _, name = uri.rpartition("/")
    candidates = lines.label_file_names(name)
    for candidate in candidates:
        if fs.exists(joined(folder, candidate)):
            return [uri, joined(folder, candidate)]
    raise InputError(
        f"input.{split}: beside {uri} there is no file with the labels of its texts; looked for {', '.join(candidates)}"
    )


def filter_rows(context: Context, uri: str) -> DataFrame:
    """(id, refs) of a filter file: lines "row label", rows being those of `input.test`."""
    pairs = _parsed(context, "exclude", uri, lines.filter_pair, "input.exclude")
    test = found(context, "test")
    if test is None:
        raise InputError(
            "input.exclude is a filter file, whose rows are those of input.test: give input.test too"
        )
    rows = _split_rows(context, "test", test).select("line", "id")
    pairs = pairs.select(F.col("refs")[0].alias("line"), F.array(F.col("refs")[1]).alias("refs"))
    return pairs.join(rows, "line").select("id", "refs")


def _label_table(context: Context, uri: str) -> DataFrame:
    if format_of(context.fs, uri, "labels") == "json":
        parsed = _parsed(context, "labels", uri, lines.json_record, "input.labels")
        return parsed.select(F.col("line").alias("ref"), F.col("id").alias("key"), "text")
    _refuse_features(context, "labels", uri)
    parsed = _parsed(context, "labels", uri, lines.raw_text, "input.labels")
    return parsed.select(F.col("line").alias("ref"), F.col("line").cast("string").alias("key"), "text")


def _split_rows(context: Context, split: str, uri: str) -> DataFrame:
    """split, id, text, refs, relevance and the line."""
    files, place = files_of(context.fs, split, uri), f"input.{split}"
    columns: list[Column | str] = [F.lit(split).alias("split"), "id", "text", "refs", "relevance", "line"]
    if len(files) == 1:
        return _parsed(context, split, uri, lines.json_record, place).select(*columns)
    _refuse_features(context, split, uri)
    texts = _parsed(context, split, uri, lines.raw_text, place)
    labels = _parsed(context, f"{split}-labels", files[1], lines.sparse_labels, place, header=True)
    header = labels.where(F.col("line") == lines.HEADER).select("refs").collect()
    labels = labels.where(F.col("line") >= 0)
    n_texts, n_labels = texts.count(), labels.count()
    declared = header[0]["refs"][0] if header else n_labels
    if not n_texts == n_labels == declared:
        said = f" and its header says {declared}" if header else ""
        raise InputError(
            f"{place}: {uri} has {n_texts} texts but {files[1]} has {n_labels} rows of labels{said}: line i of one "
            "belongs to line i of the other"
        )
    texts = texts.select("line", F.col("line").cast("string").alias("id"), "text")
    return texts.join(labels.select("line", "refs", "relevance"), "line").select(*columns)


def _refuse_features(context: Context, split: str, uri: str) -> None:
    with clear_read_errors(f"input.{split}"):
        start = [row["value"] for row in context.spark.read.text(uri, lineSep="\n").head(3)]
    if lines.is_bag_of_words(start):
        raise InputError(f"input.{split}: {uri} cannot be used: {_RAW_TEXT_ADVICE}")


def _parsed(
    context: Context, name: str, uri: str, parse: lines.Parser, place: str, header: bool = False
) -> DataFrame:
    """The parsed lines of one file, numbered, through a table in scratch; InputError if any line is bad."""
    target = context.scratch(f"lines-{name}")
    files = [entry.uri for entry in context.fs.walk(uri)]
    if len(files) != 1:
        raise InputError(
            f"{place}: {uri} holds {len(files)} files: lines count through one file, so give one"
        )
    invalid = context.config.text.invalid

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return lines.parsed_batches(batches, parse, invalid, header)

    with _one_task_a_file(context.spark), clear_read_errors(place):
        content = context.spark.read.text(uri, lineSep="\n").select(F.col("value").cast("binary"))
        content.mapInArrow(work, lines.SCHEMA).write.mode("overwrite").parquet(target)
    parsed = context.spark.read.schema(lines.SCHEMA).parquet(target)
    bad = parsed.where("problem is not null").agg(
        F.count(F.lit(1)).alias("n"), F.min(F.struct("line", "problem")).alias("first")
    )
    row = bad.collect()[0]
    if row["n"]:
        raise InputError(
            f"{place}: {row['n']} lines of {uri} cannot be used, the first of them "
            f"{row['first']['problem']}; mend or remove them"
        )
    return parsed


def _one_task_a_file(spark: SparkSession) -> AbstractContextManager[None]:
    """While a file is read: never cut it, or lines could not be counted."""
    whole = {"spark.sql.files.maxPartitionBytes": str(2**62), "spark.sql.files.minPartitionNum": "1"}
    return session_settings(spark, whole)
