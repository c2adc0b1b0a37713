"""Labels by number, counted in blocks. What tasks see of rows and of the label table travels packed to the task that
owns a block of labels, or a share of the hashes of ids; that task finishes the labels and says what is wrong with them.
Decides what is sent and what is found; nothing here depends on how rows are spread."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xmcspark.corpus.row_cleaning import CleanRows, RowFacts, valid_texts
from xmcspark.sparse.distinct import distinct, union
from xmcspark.sparse.row_hash import text_hashes

BLOCK = 1 << 16  # labels
GROUPS = ("train", "test", "label")  # whose ids must differ
_MOST_HELD = 1 << 22  # labels of rows, before they are counted

_COUNTS = pa.schema([("label", pa.int64()), ("train", pa.int64()), ("test", pa.int64())])
_HASHES = pa.schema([("group", pa.int8()), ("hash", pa.int64())])
_LABELS = pa.schema([("label", pa.int64()), ("key", pa.string()), ("text", pa.string())])
FINISHED = pa.schema(
    [
        ("id", pa.int32()),
        ("key", pa.string()),
        ("text", pa.string()),
        ("active", pa.bool_()),
        ("positives", pa.int64()),
        ("first_seen", pa.date32()),
        ("last_seen", pa.date32()),
    ]
)


@dataclass(frozen=True)
class Blocks:
    """How labels and hashes are cut: a place is a number that one task owns."""

    labels: int  # in the label table
    shares: int  # of the hashes

    @property
    def places(self) -> int:
        return self._of_labels + self.shares

    @property
    def _of_labels(self) -> int:
        return max(1, -(-self.labels // BLOCK))

    def of_labels(self, labels: np.ndarray) -> np.ndarray:
        """Numbers that are no label's go to the first block."""
        known = (labels >= 0) & (labels < self.labels)
        places: np.ndarray = np.where(known, labels // BLOCK, 0)
        return places

    def of_hashes(self, hashes: np.ndarray) -> np.ndarray:
        places: np.ndarray = self._of_labels + hashes % self.shares
        return places


@dataclass(frozen=True)
class Sent:
    """Some facts for the owner of a place."""

    place: int
    kind: str
    payload: bytes


class RowCounter:
    """Counts the labels and the ids of the rows a task sees."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._labels: dict[str, list[np.ndarray]] = {"train": [], "test": []}
        self._hashes: dict[str, list[np.ndarray]] = {"train": [], "test": []}
        self._held = 0
        self.facts = {"train": RowFacts(), "test": RowFacts()}

    def add(self, split: str, ids: pa.Array, rows: CleanRows) -> Iterator[Sent]:
        """`ids` are those of all rows. What is seen is sent now and then."""
        self._hashes[split].append(text_hashes(ids.fill_null("")))
        self._labels[split].append(rows.refs)
        self._held += len(ids) + len(rows.refs)
        if self._held > _MOST_HELD:
            yield from self._seen()

    def rest(self) -> Iterator[Sent]:
        yield from self._seen()
        yield Sent(0, "facts", LabelFacts(self.facts).to_json().encode())

    def _seen(self) -> Iterator[Sent]:
        for split, parts in self._hashes.items():
            yield from _sent_hashes(self._blocks, split, np.concatenate([np.empty(0, np.int64), *parts]))
        counted = {
            split: np.unique(np.concatenate([np.empty(0, np.int64), *parts]), return_counts=True)
            for split, parts in self._labels.items()
        }
        labels = union(counted["train"][0], counted["test"][0])
        columns = {"label": labels}
        for split, (own, counts) in counted.items():
            columns[split] = np.zeros(len(labels), np.int64)
            columns[split][np.searchsorted(labels, own)] = counts
        yield from _by_place(self._blocks.of_labels(labels), "counts", pa.table(columns, schema=_COUNTS))
        self._labels, self._hashes = {"train": [], "test": []}, {"train": [], "test": []}
        self._held = 0


def sent_labels(blocks: Blocks, batch: pa.RecordBatch, by_key: bool) -> Iterator[Sent]:
    """Labels (ref, key, text) to their owners. `by_key`: keys must differ, not only numbers."""
    texts, odd = valid_texts(batch.column("text"))
    if odd.any():
        examples = {"not_utf8": pc.min(batch.column("key").filter(pa.array(odd))).as_py() or ""}
        facts = LabelFacts(totals={"not_utf8": int(odd.sum())}, examples=examples)
        yield Sent(0, "facts", facts.to_json().encode())
    table = pa.table([batch.column("ref"), batch.column("key"), texts], schema=_LABELS)
    places = blocks.of_labels(table["label"].fill_null(-1).to_numpy())
    yield from _by_place(places, "labels", table)
    if by_key:
        yield from _sent_hashes(blocks, "label", text_hashes(batch.column("key").drop_null()))


def _sent_hashes(blocks: Blocks, group: str, hashes: np.ndarray) -> Iterator[Sent]:
    groups = np.full(len(hashes), GROUPS.index(group), np.int8)
    yield from _by_place(
        blocks.of_hashes(hashes), "hashes", pa.table({"group": groups, "hash": hashes}, schema=_HASHES)
    )


def _by_place(places: np.ndarray, kind: str, table: pa.Table) -> Iterator[Sent]:
    order = np.argsort(places, kind="stable")
    table, places = table.take(pa.array(order)), places[order]
    starts = np.flatnonzero(np.diff(places, prepend=-1))
    for first, end in pairwise([*starts.tolist(), len(places)]):
        yield Sent(int(places[first]), kind, table_bytes(table.slice(first, end - first)))


def table_bytes(table: pa.Table) -> bytes:
    """A table as bytes that `table_of` reads."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    whole: bytes = sink.getvalue().to_pybytes()
    return whole


def table_of(payload: Any) -> pa.Table:
    return pa.ipc.open_stream(payload).read_all()


@dataclass
class LabelFacts:
    """What was found of rows and labels; parts of it add up."""

    rows: dict[str, RowFacts] = field(default_factory=lambda: {"train": RowFacts(), "test": RowFacts()})
    totals: dict[str, int] = field(default_factory=dict)
    highest: dict[str, int] = field(default_factory=dict)  # the largest counts
    examples: dict[str, str] = field(default_factory=dict)  # the first in order

    def add(self, other: LabelFacts) -> None:
        for split, seen in other.rows.items():
            self.rows[split].add(seen)
        for name, count in other.totals.items():
            self.totals[name] = self.totals.get(name, 0) + count
        for name, count in other.highest.items():
            self.highest[name] = max(self.highest.get(name, 0), count)
        for name, example in other.examples.items():
            self.examples[name] = min(self.examples.get(name, example), example)

    def to_json(self) -> str:
        rows = {split: [seen.counts, seen.examples] for split, seen in self.rows.items()}
        return json.dumps([rows, self.totals, self.highest, self.examples])

    @classmethod
    def from_json(cls, text: str) -> LabelFacts:
        rows, totals, highest, examples = json.loads(text)
        return cls({split: RowFacts(*seen) for split, seen in rows.items()}, totals, highest, examples)


def all_facts(parts: Iterable[str]) -> LabelFacts:
    """Of facts as JSON."""
    total = LabelFacts()
    for part in parts:
        total.add(LabelFacts.from_json(part))
    return total


class BlockOwner:
    """Collects what is sent to one place and finishes its labels."""

    def __init__(self) -> None:
        self._parts: dict[str, list[pa.Table]] = {"counts": [], "labels": [], "hashes": []}
        self._facts = LabelFacts()

    def add(self, kind: str, payload: Any) -> None:
        if kind == "facts":
            self._facts.add(LabelFacts.from_json(bytes(payload).decode()))
        else:
            self._parts[kind].append(table_of(payload))

    def finished(self, enough: int) -> tuple[LabelFacts, pa.Table, np.ndarray]:
        """(facts, labels, ids of labels that rows have but that are not trained). `enough`: rows to be trained."""
        facts = self._facts
        self._count_repeated_hashes(facts)
        labels = _whole(self._parts["labels"], _LABELS)
        known = labels.filter(pc.is_valid(labels["label"])).sort_by("label")
        facts.add(LabelFacts(totals={"listed": len(labels), "nulls": len(labels) - len(known)}))
        ids = known["label"].to_numpy()
        again = np.flatnonzero(ids[1:] == ids[:-1]) + 1
        if len(again):
            examples = {"repeated": min(known["key"].take(again).to_pylist())}
            facts.add(LabelFacts(totals={"repeated": len(np.unique(ids[again]))}, examples=examples))
        counts = self._counts_of(ids, facts)
        table = _finished(known, ids, counts["train"], enough)
        facts.add(_facts_of(table, counts, enough))
        untrained = ids[(counts["train"] < enough) & (counts["train"] + counts["test"] > 0)]
        return facts, table, untrained.astype(np.int32)

    def _count_repeated_hashes(self, facts: LabelFacts) -> None:
        table = _whole(self._parts["hashes"], _HASHES)
        for number, group in enumerate(GROUPS):
            own = table["hash"].to_numpy()[table["group"].to_numpy() == number]
            facts.add(LabelFacts(totals={f"repeated_{group}": len(own) - len(distinct(own))}))

    def _counts_of(self, ids: np.ndarray, facts: LabelFacts) -> dict[str, np.ndarray]:
        """By split, for each of `ids`; notes what rows have that is not among them."""
        table = _whole(self._parts["counts"], _COUNTS)
        labels, inverse = np.unique(table["label"].to_numpy(), return_inverse=True)
        at = np.searchsorted(ids, labels)
        listed = np.zeros(len(labels), bool)
        inside = at < len(ids)
        listed[inside] = ids[at[inside]] == labels[inside]
        found, elsewhere = {}, 0
        for split in ("train", "test"):
            sums = np.bincount(inverse, table[split].to_numpy(), len(labels)).astype(np.int64)
            found[split] = np.zeros(len(ids), np.int64)
            found[split][at[listed]] = sums[listed]
            elsewhere += int(sums[~listed].sum())
        if not listed.all():
            totals = {"unknown": int(np.count_nonzero(~listed)), "unknown_pairs": elsewhere}
            facts.add(
                LabelFacts(totals=totals, examples={"unknown": min(map(str, labels[~listed].tolist()))})
            )
        return found


def _finished(known: pa.Table, ids: np.ndarray, train: np.ndarray, enough: int) -> pa.Table:
    days = pa.nulls(len(ids), pa.date32())
    kept = (ids >= 0) & (ids < 2**31)
    columns = [
        pa.array(np.where(kept, ids, 0), pa.int32()),
        known["key"],
        known["text"],
        pa.array(train >= enough),
        pa.array(train),
        days,
        days,
    ]
    return pa.table(columns, schema=FINISHED)


def _facts_of(table: pa.Table, counts: dict[str, np.ndarray], enough: int) -> LabelFacts:
    train, test = counts["train"], counts["test"]
    empty = pc.equal(pc.utf8_trim_whitespace(table["text"].fill_null("")), "")
    totals = {
        "active": train >= enough,
        "rare": (train > 0) & (train < enough),
        "test_only": (test > 0) & (train < enough),
        "without_text": empty.to_numpy(),
    }
    highest = {
        "label": pc.max(table["id"]).as_py() or 0,
        "positives": int(train.max(initial=0)),
    }
    return LabelFacts(
        totals={name: int(np.count_nonzero(flags)) for name, flags in totals.items()}, highest=highest
    )


def _whole(parts: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()
