"""Label ids. Decides that a label keeps its id as long as its line of runs lives: known keys keep theirs, new ones
continue after the highest, in the order of the source's numbers or of the keys, and no id is ever given twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, Observation, Window
from pyspark.sql import functions as F

from xmcspark.corpus.keyed_corpus_spark import KeyedCorpus
from xmcspark.corpus.row_checks import check_label_table, check_label_use
from xmcspark.corpus.utf8_spark import is_not_utf8
from xmcspark.errors import InputError
from xmcspark.store.small_frames import small_frame
from xmcspark.store.stage import Context, read_table

_HIGHEST = 2**31 - 2  # arrays over labels have one more entry than the highest id, counted in 32 bits
_LABELS_A_FILE = 1_000_000  # 50 to 100 MB


@dataclass(frozen=True)
class LabelUse:
    """The labels of a corpus with how often rows have them."""

    table: DataFrame  # ref, key, place, text, first_seen, last_seen, train bigint, test bigint
    facts: dict[str, Any]


def label_use(context: Context, corpus: KeyedCorpus) -> LabelUse:
    """Counts each label's rows by split; InputError if ids or labels are unusable."""
    watch = LabelWatch(corpus, context.config.corpus.min_label_count)
    watch.labels.write.mode("overwrite").parquet(context.scratch("label-use"))
    facts = watch.judged()
    table = context.spark.read.schema(watch.labels.schema).parquet(context.scratch("label-use"))
    return LabelUse(table, facts)


class LabelWatch:
    """The labels of a corpus, checked while they are written."""

    def __init__(self, corpus: KeyedCorpus, enough: int) -> None:
        self._corpus, self._enough = corpus, enough
        self._ids, self._labels = Observation(), Observation()
        counts = _counts_by_label(corpus.rows, corpus.refuse_repeated_ids is not None)
        if corpus.refuse_repeated_ids is not None:
            repeated = F.col("id_key").isNotNull() & (F.greatest("train", "test") > 1)
            counts = counts.observe(self._ids, F.count_if(repeated).alias("repeated"))
        self.labels = (
            _joined(corpus.labels, counts).observe(self._labels, *self._facts()).drop("listed", "copy")
        )

    def judged(self) -> dict[str, Any]:
        """Counts, once the labels are written; InputError if ids or labels are unusable."""
        facts: dict[str, Any] = self._labels.get
        if self._corpus.refuse_repeated_ids is not None:
            if self._ids.get.get("repeated"):
                self._corpus.refuse_repeated_ids()
            check_label_table(facts, self._corpus.place)
        check_label_use(facts, self._enough)
        return facts

    def _facts(self) -> list[Column]:
        listed, train, test = F.col("listed"), F.col("train"), F.col("test")
        facts = {
            "all": F.count(F.lit(1)),
            "unknown": F.count_if(listed.isNull()),
            "example": F.min(F.expr("if(listed is null, cast(ref as string), null)")),
            "unknown_pairs": F.coalesce(F.sum(F.expr("if(listed is null, train + test, 0)")), F.lit(0)),
            "active": F.count_if(train >= self._enough),
            "rare": F.count_if((train > 0) & (train < self._enough)),
            "test_only": F.count_if((test > 0) & (train < self._enough)),
            "listed": F.count_if(listed),
            "nulls": F.count_if(listed & (F.col("ref").isNull() | F.col("key").isNull())),
            "repeated": F.count_if(F.col("copy") == 2),
            "repeated_example": F.min(F.expr("if(copy = 2, key, null)")),
            "not_utf8": F.count_if(listed & is_not_utf8(F.col("text"))),
            "not_utf8_example": F.min(F.when(listed & is_not_utf8(F.col("text")), F.col("key"))),
        }
        return [column.alias(name) for name, column in facts.items()]


def _counts_by_label(rows: DataFrame, with_ids: bool) -> DataFrame:
    """ref, train, test. `with_ids`: also id_key, train, test of the rows' ids, so that one shuffle serves both."""
    refs = F.col("refs")
    if with_ids:  # each row's id goes before its labels, as one that is null
        kind = rows.schema["refs"].dataType
        refs = F.concat(F.array(F.lit(None)).cast(kind), refs)
    used = rows.select("split", F.xxhash64("id").alias("id_key"), F.explode(refs).alias("ref"))
    keys: list[Column | str] = ["ref"]
    if with_ids:
        keys.append(F.when(F.col("ref").isNull(), F.col("id_key")).alias("id_key"))
    return used.groupBy(*keys).agg(
        F.count_if(F.col("split") == "train").alias("train"),
        F.count_if(F.col("split") == "test").alias("test"),
    )


def _joined(labels: DataFrame, counts: DataFrame) -> DataFrame:
    """All labels that are listed or used; `listed` is null for those that are only used."""
    kind = labels.schema["ref"].dataType
    used = counts.where("ref is not null").select(F.col("ref").cast(kind).alias("ref"), "train", "test")
    joined = labels.withColumn("listed", F.lit(True)).join(used.hint("merge"), "ref", "full")
    return joined.fillna(0, ["train", "test"])


def label_table(context: Context, corpus: KeyedCorpus, use: LabelUse) -> DataFrame:
    """The `labels` table, those of the base run with the ids they had; `was_active` beside it, null for new ones."""
    enough = context.config.corpus.min_label_count
    seen = use.table.withColumn("active", F.col("train") >= enough)
    if context.base is None:
        known, highest = None, -1
        new = seen
    else:
        known = read_table(context.spark, context.base, "labels")
        highest = int(known.agg(F.coalesce(F.max("id"), F.lit(-1)).alias("id")).collect()[0]["id"])
        new = seen.join(known.select("key"), "key", "left_anti")
    if not corpus.rare_labels_get_ids:
        new = new.where("active")
    ids = numbered_keys(context, new.select("key", "place"), highest + 1)
    added = _finished(seen.join(ids, "key"))
    return added if known is None else _updated(known, seen).unionByName(added)


def laid_out(table: DataFrame, use: LabelUse) -> DataFrame:
    """By id: one file while it is small."""
    few = use.facts["all"] <= _LABELS_A_FILE
    return (table.repartition(1) if few else table.repartitionByRange("id")).sortWithinPartitions("id")


def label_counts() -> list[Column]:
    """For the notes, over `label_table`."""
    counts = {
        "labels_active": F.count_if("active"),
        "labels_new": F.count_if(F.col("was_active").isNull()),
        "labels_retired": F.count_if(F.col("was_active") & ~F.col("active")),
        "labels_without_text": F.count_if(F.trim(F.coalesce("text", F.lit(""))) == ""),
        "highest_label": F.max("id"),
        "most_positives": F.max("positives"),
    }
    return [column.alias(name) for name, column in counts.items()]


def _finished(labels: DataFrame) -> DataFrame:
    return labels.select(
        "id",
        "key",
        "text",
        "active",
        F.col("train").alias("positives"),
        "first_seen",
        "last_seen",
        F.lit(None).cast("boolean").alias("was_active"),
    )


def _updated(known: DataFrame, seen: DataFrame) -> DataFrame:
    """The base run's labels as of now: those that are gone stay, inactive."""
    now = seen.select(
        "key",
        *(
            F.col(name).alias(f"new_{name}")
            for name in ("text", "train", "active", "first_seen", "last_seen")
        ),
    )
    return known.join(now, "key", "left").select(
        "id",
        "key",
        F.coalesce("new_text", "text").alias("text"),
        F.coalesce("new_active", F.lit(False)).alias("active"),
        F.coalesce("new_train", F.lit(0)).alias("positives"),
        F.least("first_seen", "new_first_seen").alias("first_seen"),
        F.greatest("last_seen", "new_last_seen").alias("last_seen"),
        F.col("active").alias("was_active"),
    )


def numbered_keys(context: Context, keys: DataFrame, first: int) -> DataFrame:
    """(key, id): ids from `first` on in the order of (place, key). Keys are sorted into ranges, and each range
    continues where the one before it ended; they are written down first, since Spark would draw others each time."""
    ranges = keys.repartitionByRange("place", "key").withColumn("range", F.spark_partition_id())
    ranges.write.mode("overwrite").parquet(context.scratch("label-ranges"))
    written = context.spark.read.schema(ranges.schema).parquet(context.scratch("label-ranges"))
    starts, next_id = [], first
    for row in sorted(written.groupBy("range").count().collect(), key=lambda row: row["range"]):
        starts.append((row["range"], next_id))
        next_id += row["count"]
    if next_id - 1 > _HIGHEST:
        raise InputError(
            f"{next_id} label ids are needed, more than 2^31 - 1: start anew with another run.root"
        )
    table = small_frame(context.spark, starts, "range int, start bigint")
    inside = Window.partitionBy("range").orderBy(F.col("place").asc_nulls_first(), F.col("key"))
    ids = written.withColumn("at", F.row_number().over(inside)).join(F.broadcast(table), "range")
    return ids.select("key", (F.col("start") + F.col("at") - 1).cast("int").alias("id"))
