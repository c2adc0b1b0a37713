"""Instances from logs: a query is an instance, the items clicked or bought for it are its labels. Decides which queries
are the same, how days add up, and what is too rare to keep."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F

from xmcspark.corpus.corpus_settings import CorpusSettings
from xmcspark.corpus.day_window import DayWindow
from xmcspark.corpus.keyed_corpus_spark import KeyedCorpus
from xmcspark.corpus.relevance_spark import STEP, check_formula, steps
from xmcspark.corpus.utf8_spark import as_utf8
from xmcspark.errors import InputError
from xmcspark.store.stage import Context


def keyed_logs(context: Context, interactions: DataFrame, window: DayWindow) -> KeyedCorpus:
    """The corpus of the interactions of a window."""
    settings = context.config.corpus
    check_formula(context.spark, settings.relevance)
    counted = Observation()
    queries = _queries(_pairs(interactions, settings, window), settings).observe(counted, *_counts(settings))
    kept = queries.where(_is_kept(settings)).select("split", "id", "refs", "relevance")
    with _clear_formula_errors(settings):
        kept.write.mode("overwrite").parquet(context.scratch("queries"))
    rows = context.spark.read.schema(kept.schema).parquet(context.scratch("queries"))
    return KeyedCorpus(
        rows=rows.withColumn("text", F.col("id")),
        labels=_labels(interactions, settings),
        origin="logs",
        rare_labels_get_ids=False,
        text_is_id=True,
        notes={name: int(n) for name, n in counted.get.items() if n},
    )


def query_id(query: Column, settings: CorpusSettings) -> Column:
    """The instance a query belongs to: its text, cleaned. People read it, and labels that are queries match it."""
    cleaned = as_utf8(query)
    if settings.query_key == "lower":
        cleaned = F.lower(F.trim(F.regexp_replace(cleaned, r"[\s\p{Z}]+", " ")))
    return F.substring(cleaned, 1, settings.max_text_chars)


def _pairs(interactions: DataFrame, settings: CorpusSettings, window: DayWindow) -> DataFrame:
    """split, id, ref, steps of relevance, actions: one row for all days of a split."""
    test_from = window.test_from or date.max
    day = interactions.where(F.col("query").isNotNull() & F.col("label_key").isNotNull()).select(
        F.when(F.col("dt") >= F.lit(test_from), "test").otherwise("train").alias("split"),
        query_id(F.col("query"), settings).alias("id"),
        (F.length("query") > settings.max_text_chars).alias("cut"),
        F.col("label_key").alias("ref"),
        F.datediff(F.lit(window.last), F.col("dt")).alias("age"),
        *(F.coalesce(name, F.lit(0)).alias(name) for name in ("impressions", "clicks", "purchases")),
    )
    return (
        day.where(F.col("id") != "")
        .groupBy("split", "id", "ref")
        .agg(
            F.sum(steps(settings.relevance)).alias("steps"),
            F.sum(F.col("clicks") + F.col("purchases")).alias("actions"),
            F.max("cut").alias("cut"),
        )
    )


def _queries(pairs: DataFrame, settings: CorpusSettings) -> DataFrame:
    """One row a query and split, its labels by falling relevance, ties by key."""
    match = F.when(F.col("steps") > 0, F.struct((-F.col("steps")).alias("rank"), F.col("ref")))
    grouped = pairs.groupBy("split", "id").agg(
        F.array_sort(F.collect_list(match)).alias("matches"),
        F.sum("actions").alias("actions"),
        F.count(F.lit(1)).alias("pairs"),
        F.max("cut").alias("cut"),
    )
    most = settings.max_labels_per_instance
    best = F.col("matches")
    if most:
        best = F.when(F.col("split") == "train", F.slice("matches", 1, most)).otherwise(F.col("matches"))
    return grouped.select(
        "split",
        "id",
        F.transform(best, lambda pair: pair["ref"]).alias("refs"),
        F.transform(best, lambda pair: (-pair["rank"] * STEP).cast("float")).alias("relevance"),
        "actions",
        "pairs",
        F.size("matches").alias("n_matches"),
        "cut",
    )


def _is_kept(settings: CorpusSettings) -> Column:
    return (F.size("refs") > 0) & ~_is_rare(settings)


def _is_rare(settings: CorpusSettings) -> Column:
    return (F.col("split") == "train") & (F.col("actions") < settings.min_query_count)


def _counts(settings: CorpusSettings) -> list[Column]:
    """For the notes. Counted after the last shuffle, where a task that is run twice counts once."""
    unmatched = F.col("n_matches") == 0
    of_splits = {split: F.col("split") == split for split in ("train", "test")}
    counts = {
        **{f"{split}_rows_read": F.count_if(here) for split, here in of_splits.items()},
        **{
            f"{split}_rows_with_labels": F.count_if(here & _is_kept(settings))
            for split, here in of_splits.items()
        },
        "texts_cut": F.count_if(F.col("cut")),
        "pairs_not_above_0": F.sum(F.col("pairs") - F.col("n_matches")),
        "pairs_over_the_limit": F.sum(F.col("n_matches") - F.size("refs")),
        "queries_without_matches": F.count_if(unmatched),
        "queries_too_rare": F.count_if(~unmatched & _is_rare(settings)),
    }
    return [column.alias(name) for name, column in counts.items()]


def _labels(interactions: DataFrame, settings: CorpusSettings) -> DataFrame:
    """All items of the window with the text they had last."""
    text = F.substring(as_utf8(F.col("label_text")), 1, settings.max_text_chars)
    dated = F.when(F.col("label_text").isNotNull(), F.struct("dt", text.alias("text")))
    items = (
        interactions.where("label_key is not null")
        .groupBy("label_key")
        .agg(F.max(dated).alias("latest"), F.min("dt").alias("first_seen"), F.max("dt").alias("last_seen"))
    )
    return items.select(
        F.col("label_key").alias("ref"),
        F.col("label_key").alias("key"),
        F.lit(None).cast("bigint").alias("place"),
        F.col("latest.text").alias("text"),
        "first_seen",
        "last_seen",
        F.lit(1).alias("copy"),
    )


@contextmanager
def _clear_formula_errors(settings: CorpusSettings) -> Iterator[None]:
    """What only the data can show to be wrong with the formula."""
    try:
        yield
    except Exception as error:  # of several classes, by the release of Spark
        for code, remedy in (
            ("DIVIDE_BY_ZERO", "divides by 0 for some rows; write x / nullif(y, 0)"),
            ("OVERFLOW", "is too large, infinite or not a number for some rows"),
        ):
            if code in str(error):
                raise InputError(f"corpus.relevance ({settings.relevance}) {remedy}") from error
        raise
