"""A ready corpus: rows and a label table, from whatever files. Decides what is refused, and hands rows over cleaned,
their labels by reference."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from xmcspark.config.configuration import Config
from xmcspark.corpus.given_rows_spark import SHAPED, GivenRows
from xmcspark.corpus.keyed_corpus_spark import KeyedCorpus
from xmcspark.corpus.label_blocks import LabelFacts, all_facts
from xmcspark.corpus.row_checks import notes_of_rows, problems_of_rows
from xmcspark.corpus.row_cleaning import CleanRows, RowFacts, cleaned, cleaning_rules
from xmcspark.corpus.utf8_spark import as_utf8
from xmcspark.errors import InputError
from xmcspark.store.direct_tables import Batches
from xmcspark.store.stage import Context

ORIGIN = "corpus"


@dataclass(frozen=True)
class GivenCorpus:
    """A ready corpus before anything was looked at but its columns."""

    rows: GivenRows
    labels: DataFrame  # ref bigint or string, key, text
    places: dict[str, str]  # split -> how to call its input
    place: str  # how to call the input of the labels
    numbered: (
        int | None
    )  # how many labels there are, if references are 0 and up, each once unless the input is wrong
    unique: str  # the column by which to look for labels that are given twice: ref or key
    small: bool  # one task reads all in no time

    @property
    def refs(self) -> str:
        return self.rows.splits[0].refs


def keyed_rows(context: Context, given: GivenCorpus) -> KeyedCorpus:
    """With its rows written down."""
    kind = f"split string, id string, text string, refs array<{given.refs}>, relevance array<float>"
    clean = given.rows.map(SHAPED, partial(_cleaned, context.config), kind, given.small)
    facts = _row_facts(context.config, given)
    judge_rows(given, facts)
    clean.write.mode("overwrite").parquet(context.scratch("rows"))
    rows = context.spark.read.schema(kind).parquet(context.scratch("rows"))
    labels = given.labels
    if given.small:
        rows, labels = rows.coalesce(1), labels.coalesce(1)
    copy = F.row_number().over(Window.partitionBy(given.unique).orderBy(given.unique)).alias("copy")
    dates = [F.lit(None).cast("date").alias(name) for name in ("first_seen", "last_seen")]
    text = label_text(F.col("text"), context.config).alias("text")
    return KeyedCorpus(
        rows=rows,
        labels=labels.select("ref", "key", _order(given).alias("place"), text, *dates, copy),
        origin=ORIGIN,
        rare_labels_get_ids=True,
        notes=notes_of_rows(facts),
        refuse_repeated_ids=partial(judge_rows, given, facts, repeated=True),
        place=given.place,
    )


def label_text(text: Column, config: Config) -> Column:
    whole = as_utf8(text) if config.text.invalid == "replace" else text
    return F.substring(whole, 1, config.corpus.max_text_chars)


def judge_rows(given: GivenCorpus, facts: dict[str, RowFacts], repeated: bool = False) -> None:
    """InputError with all that is wrong with rows at once. Ids are compared only if something is, or `repeated` says
    that some occur twice: that takes a shuffle."""
    if not repeated and not any(
        problems_of_rows(facts[split], place) for split, place in given.places.items()
    ):
        return
    counted = _repeated_ids(given)
    for split, (count, example) in counted.items():
        facts[split].counts["repeated_ids"] = count
        facts[split].examples["repeated_ids"] = example
    problems = [
        text for split, place in given.places.items() for text in problems_of_rows(facts[split], place)
    ]
    if problems:
        raise InputError("\n".join(problems))


def clean_batches(
    config: Config, batches: Batches, facts: dict[str, RowFacts]
) -> Iterator[tuple[str, Any, CleanRows]]:
    """(split, ids of all rows, the rows that have labels) of each batch."""
    for batch in batches:
        split = batch.column("split")[0].as_py()
        yield split, batch.column("id"), cleaned(batch, cleaning_rules(config, split), facts[split])


def _cleaned(config: Config, batches: Batches) -> Batches:
    facts = {split: RowFacts() for split in ("train", "test")}
    for split, _, rows in clean_batches(config, batches, facts):
        offsets = pa.array(rows.indptr.astype(np.int32))
        texts = rows.refs.dtype == object
        refs = pa.array(rows.refs, pa.string() if texts else pa.int64())
        columns = [
            pa.repeat(pa.scalar(split), len(rows.ids)),
            rows.ids,
            rows.texts,
            pa.ListArray.from_arrays(offsets, refs),
            pa.ListArray.from_arrays(offsets, pa.array(rows.relevance)),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=list(SHAPED))


def _row_facts(config: Config, given: GivenCorpus) -> dict[str, RowFacts]:
    looked = given.rows.map(SHAPED, partial(_looked, config), "facts string", given.small)
    return all_facts(row["facts"] for row in looked.collect()).rows


def _looked(config: Config, batches: Batches) -> Batches:
    facts = LabelFacts()
    for _ in clean_batches(config, batches, facts.rows):
        pass
    yield pa.RecordBatch.from_pydict({"facts": [facts.to_json()]})


def _repeated_ids(given: GivenCorpus) -> dict[str, tuple[int, str]]:
    """(how many, one of them) by split."""
    ids = given.rows.map(SHAPED, _ids_of, "split string, id string")
    by_id = ids.where("id is not null").groupBy("split", "id").count().where("count > 1")
    found = by_id.groupBy("split").agg(F.count(F.lit(1)).alias("n"), F.min("id").alias("example"))
    return {row["split"]: (row["n"], row["example"]) for row in found.collect()}


def _ids_of(batches: Batches) -> Batches:
    return (batch.select(["split", "id"]) for batch in batches)


def _order(given: GivenCorpus) -> Column:
    """What new ids follow, before the keys."""
    return F.col("ref") if given.refs == "bigint" else F.lit(None).cast("bigint")
