"""A corpus whose labels still go by the references its source uses: what every kind of source hands over, so that
label ids, instances and notes are made in one way for all."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from xmcspark.corpus.row_checks_spark import WatchedRows


@dataclass(frozen=True)
class KeyedCorpus:
    """Checked and cleaned. A reference is what rows call a label by: its key, or its number in the label table."""

    # Written down, those with labels: split, id, text, refs array<int, bigint or string> (each once), relevance
    # array<float> (above 0).
    rows: DataFrame
    labels: DataFrame  # ref, key string, place bigint (orders new ids, before the key), text, first_seen, last_seen;
    # and `copy`: 1, 2.. for labels of the same key, 1 where there can be but one
    origin: str  # logs or corpus
    numbered: bool  # references are 0..n-1 and become the ids: there is no base run
    rare_labels_get_ids: (
        bool  # whether labels that are too rare to train are in the labels table from the start
    )
    text_is_id: bool = False
    notes: dict[str, Any] = field(default_factory=dict)  # what was cut, dropped or replaced
    watched: WatchedRows | None = None  # given rows, whose ids may be repeated
    place: str = ""  # how to call the input that the labels come from
    instances: dict[str, Any] | None = None  # counts of the table, if the rows were written there at once


def best_labels(pairs: Column, most: int) -> Column:
    """Of an array of (ref, relevance) each reference once, with its highest relevance; at most `most` (0: all), the
    most relevant, ties by reference. In the order of relevance."""
    by_ref = F.array_sort(
        F.transform(pairs, lambda pair: F.struct(pair["ref"], (-pair["relevance"]).alias("rank")))
    )
    # Beside each pair the reference before it: zipped, because a lambda would work out the whole array again for each.
    before = F.concat(F.array(F.lit(None)), F.transform(by_ref, lambda pair: pair["ref"]))
    first = F.zip_with(by_ref, before, lambda pair, ref: F.when(~pair["ref"].eqNullSafe(ref), pair))
    kept = F.filter(first, lambda pair: pair.isNotNull() & pair["ref"].isNotNull())
    ranked = F.array_sort(F.transform(kept, lambda pair: F.struct(pair["rank"], pair["ref"])))
    return F.slice(ranked, 1, most) if most else ranked


def refs_of(ranked: Column) -> Column:
    return F.transform(ranked, lambda pair: pair["ref"])


def relevance_of(ranked: Column) -> Column:
    return F.transform(ranked, lambda pair: (-pair["rank"]).cast("float"))
