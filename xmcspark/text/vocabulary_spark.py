"""The vocabulary of a corpus that no machine holds. Texts are counted where they lie, counts travel packed to the task
that owns their range of grams, and feature numbers follow from how many grams each range keeps: one shuffle, and
the same vocabulary as `Tfidf.fit` learns."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from xmcspark.errors import InputError
from xmcspark.store.direct_tables import Rows
from xmcspark.store.direct_writing import write_mapped
from xmcspark.store.placement import partition_keys
from xmcspark.store.progress import tell
from xmcspark.store.session import arrow_batch, slots_of, task_threads
from xmcspark.store.stage import Context
from xmcspark.text.base_vocabulary_spark import BaseVocabulary
from xmcspark.text.counts import gram_counts, gram_counts_in_parts
from xmcspark.text.gram_runs import (
    GramRanges,
    GramRun,
    RunMerger,
    expected_grams,
    gram_ranges,
    names_only,
)
from xmcspark.text.selection import (
    Choice,
    Piece,
    choose,
    histogram,
    packed_histogram,
    unpacked_histogram,
)
from xmcspark.text.settings import TfidfSettings
from xmcspark.text.vocabulary import MOST_FEATURES, df_bounds, idf_of, nothing_left, too_many

log = logging.getLogger(__name__)

MOST_GRAMS = 1 << 21  # distinct grams a counting task holds, about 100 bytes each, before it sends them on
_SAMPLE_TEXTS, _SAMPLE_CHARACTERS = 5000, 1000  # what ranges are guessed from, on the driver
_RANGE_GRAMS = 1 << 21  # expected in one range, at most
_FEWEST_GRAMS = 50_000  # worth a range of its own
_MOST_RANGES = 8192
_SENT_GRAMS, _SENT_BYTES, _SENT_ROWS = 2048, 1 << 16, 1024  # of one packed row; rows of one Arrow batch
_PIECE_GRAMS, _PIECE_BYTES, _PIECE_ROWS = 1 << 14, 1 << 20, 32  # the same for merged grams
# Spark reads a row group of large rows at once, and by default it has at least 100 rows.
_SMALL_GROUPS = {"parquet.block.size": str(16 << 20), "parquet.page.size.row.check.min": "4"}

_SENT = "key int, range int, known boolean, payload binary"
_PIECES = "range int, piece int, counted bigint, kept bigint, histogram binary, payload binary"
_ROWS = "feature int, vectorizer string, gram string, df bigint, idf float, active boolean"

Batches = Iterable[pa.RecordBatch]
ArrowFunction = Callable[[Batches], Iterator[pa.RecordBatch]]


@dataclass(frozen=True)
class Learned:
    """What there is to know of a vocabulary that was written."""

    features: int  # numbers given out, those of the base included
    new: dict[str, int]  # of these, given out in this run, by name of the vectorizer
    grams: int  # distinct grams met in the texts


def write_vocabulary(context: Context, rows: Rows, documents: int, base: BaseVocabulary | None) -> Learned:
    """Writes the `vocabulary` of the texts of `rows`: the rows of the base as they are, then new grams."""
    settings = context.config.text
    ranges = _ranges(context, rows, settings, documents)
    keys = partition_keys(len(ranges))
    counted = rows.map(("text",), _counting(settings, ranges, keys, task_threads(context.spark)), _SENT)
    if base is not None:
        known = base.rows.select("vectorizer", "gram")
        counted = counted.union(known.mapInArrow(_known(settings.names(), ranges, keys), _SENT))
    merged = counted.repartition(len(ranges), "key").mapInArrow(
        _merging(settings, ranges, documents), _PIECES
    )
    scratch = context.scratch("grams")
    tell(context.stage.name, "counting grams")
    with arrow_batch(context.spark, _SENT_ROWS):
        merged.write.mode("overwrite").options(**_SMALL_GROUPS).parquet(scratch)
    pieces = context.spark.read.schema(_PIECES).parquet(scratch)
    choices, learned = _choices(pieces, settings, ranges, base)
    tell(context.stage.name, f"numbering {learned.features:,} features")
    numbered = pieces.where("kept > 0").select("range", "piece", "payload")
    numbering = _numbering(settings, ranges, documents, choices)
    with arrow_batch(context.spark, _PIECE_ROWS):
        if base is None:
            context.rows["vocabulary"], _ = write_mapped(context, "vocabulary", numbered, numbering)
        else:
            context.write("vocabulary", base.rows.unionByName(numbered.mapInArrow(numbering, _ROWS)))
    context.fs.delete(scratch)
    return learned


def _ranges(context: Context, rows: Rows, settings: TfidfSettings, documents: int) -> GramRanges:
    """Ranges of about equal work. From a few texts, whichever come first: nothing but balance depends on them."""
    texts = rows.some_texts("text", _SAMPLE_TEXTS)
    sample = gram_counts([(text or "")[:_SAMPLE_CHARACTERS] for text in texts], settings)
    grams = expected_grams(sample, documents)
    wanted = max(slots_of(context.spark), math.ceil(grams / _RANGE_GRAMS))
    wanted = min(wanted, math.ceil(grams / _FEWEST_GRAMS), _MOST_RANGES)
    return gram_ranges(sample, len(settings.vectorizers), wanted)


# ----------------------------------------------------------------------------------------- in tasks


def _counting(
    settings: TfidfSettings, ranges: GramRanges, keys: Sequence[int], threads: int
) -> ArrowFunction:
    """Texts to packed counts."""

    def count(batches: Batches) -> Iterator[pa.RecordBatch]:
        texts = (batch.column(0) for batch in batches)
        for part in gram_counts_in_parts(texts, settings, MOST_GRAMS, threads=threads):
            yield from _sent(ranges.cut_counts(part), keys, known=False)

    return count


def _known(names: list[str], ranges: GramRanges, keys: Sequence[int]) -> ArrowFunction:
    """Rows of the base's vocabulary to packed grams."""

    def send(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for v, name in enumerate(names):
                own = batch.filter(pc.equal(batch.column("vectorizer"), name))
                yield from _sent(ranges.cut(v, names_only(own.column("gram"))), keys, known=True)

    return send


def _sent(parts: Iterable[tuple[int, GramRun]], keys: Sequence[int], known: bool) -> Iterator[pa.RecordBatch]:
    """Rows of `_SENT`, some dozens at a time."""
    rows: list[tuple[int, bytes]] = []
    for number, run in parts:
        for chunk in run.chunks(_SENT_GRAMS, _SENT_BYTES):
            rows.append((number, chunk.packed()))
            if len(rows) == 64:
                yield _sent_batch(rows, keys, known)
                rows = []
    if rows:
        yield _sent_batch(rows, keys, known)


def _sent_batch(rows: list[tuple[int, bytes]], keys: Sequence[int], known: bool) -> pa.RecordBatch:
    return pa.record_batch(
        [
            pa.array([keys[number] for number, _ in rows], pa.int32()),
            pa.array([number for number, _ in rows], pa.int32()),
            pa.array([known] * len(rows)),
            pa.array([payload for _, payload in rows], pa.binary()),
        ],
        names=["key", "range", "known", "payload"],
    )


def _merging(settings: TfidfSettings, ranges: GramRanges, documents: int) -> ArrowFunction:
    """Packed counts of whole ranges to pieces of the grams that may become features."""

    def merge(batches: Batches) -> Iterator[pa.RecordBatch]:
        mergers: dict[int, RunMerger] = {}
        for batch in batches:
            numbers, known = batch.column("range").to_pylist(), batch.column("known").to_pylist()
            for at, (number, is_known) in enumerate(zip(numbers, known, strict=True)):
                merger = mergers.setdefault(number, RunMerger())
                run = GramRun.unpacked(batch.column("payload")[at].as_buffer())
                (merger.add_known if is_known else merger.add)(run)
        for number in sorted(mergers):
            merger = mergers.pop(number)
            options = settings.vectorizers[ranges.vectorizer[number]]
            low, high = df_bounds(options, documents)
            total = merger.total()
            kept = total.where((total.df >= low) & (total.df <= high) & merger.is_new(total))
            yield from _pieces(number, kept, len(total), options.max_features is not None)

    return merge


def _pieces(number: int, kept: GramRun, counted: int, limited: bool) -> Iterator[pa.RecordBatch]:
    """Rows of `_PIECES`, one at a time; one row even if nothing is kept, so that what was counted is known."""
    for piece, run in enumerate(kept.chunks(_PIECE_GRAMS, _PIECE_BYTES) if len(kept) else [kept]):
        yield pa.record_batch(
            [
                pa.array([number], pa.int32()),
                pa.array([piece], pa.int32()),
                pa.array([counted if piece == 0 else 0], pa.int64()),
                pa.array([len(run)], pa.int64()),
                pa.array([packed_histogram(*histogram(run)) if limited else b""], pa.binary()),
                pa.array([run.packed()], pa.binary()),
            ],
            names=["range", "piece", "counted", "kept", "histogram", "payload"],
        )


def _numbering(
    settings: TfidfSettings, ranges: GramRanges, documents: int, choices: dict[tuple[int, int], Choice]
) -> ArrowFunction:
    """Pieces to rows of the `vocabulary`."""

    def number(batches: Batches) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            places = zip(batch.column("range").to_pylist(), batch.column("piece").to_pylist(), strict=True)
            for at, place in enumerate(places):
                choice, v = choices[place], ranges.vectorizer[place[0]]
                run = choice.of(GramRun.unpacked(batch.column("payload")[at].as_buffer()))
                idf = idf_of(run.df, documents, settings.vectorizers[v])
                yield pa.record_batch(
                    [
                        pa.array(np.arange(choice.first, choice.first + len(run), dtype=np.int32)),
                        pa.repeat(pa.scalar(settings.names()[v], pa.string()), len(run)),
                        run.gram.cast(pa.string()),
                        pa.array(run.df),
                        pa.array(idf),
                        pa.repeat(True, len(run)),
                    ],
                    names=["feature", "vectorizer", "gram", "df", "idf", "active"],
                )

    return number


# ------------------------------------------------------------------------------------- on the driver


def _choices(
    pieces: DataFrame, settings: TfidfSettings, ranges: GramRanges, base: BaseVocabulary | None
) -> tuple[dict[tuple[int, int], Choice], Learned]:
    """What each piece contributes. Collects a row for every 16,000 grams."""
    rows = pieces.select("range", "piece", "counted", "kept", "histogram").collect()
    rows.sort(key=lambda row: (row.range, row.piece))
    known = [Piece(ranges.vectorizer[r.range], r.kept, *unpacked_histogram(r.histogram)) for r in rows]
    names, first = settings.names(), 0 if base is None else base.features
    limits = [
        None if v.max_features is None else max(0, v.max_features - (base.of(name) if base else 0))
        for v, name in zip(settings.vectorizers, names, strict=True)
    ]
    chosen = choose(known, limits, first)
    new = dict.fromkeys(names, 0)
    for piece, choice in zip(known, chosen, strict=True):
        new[names[piece.vectorizer]] += choice.features
    features, counted = first + sum(new.values()), sum(row.counted for row in rows)
    if features == 0:
        raise InputError(nothing_left(counted))
    if features > MOST_FEATURES:
        raise InputError(too_many(features))
    for name, count in new.items():
        if count == 0 and base is None:
            log.warning("vectorizer %s has no features: it kept none of its grams", name)
    by_place = {(row.range, row.piece): choice for row, choice in zip(rows, chosen, strict=True)}
    return by_place, Learned(features, new, counted)
