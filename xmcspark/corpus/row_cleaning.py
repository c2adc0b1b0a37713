"""What becomes of the rows of a ready corpus. Decides which rows make a corpus unusable, which are only counted, and
how a row is cleaned: text as UTF-8 and not too long, each label once, the most relevant ones. Over Arrow batches."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xmcspark.config.configuration import Config

COLUMNS = ("id", "text", "refs", "relevance")
REFUSED = ("null_ids", "null_texts", "not_utf8", "null_labels", "uneven", "not_numbers")
COUNTED = (
    "texts_cut",
    "texts_with_replaced_characters",
    "rows_without_labels",
    "pairs_repeated",
    "pairs_not_above_0",
    "pairs_over_the_limit",
    "texts_not_utf8",
    "texts_missing",
)
COUNTS = ("rows", "rows_with_labels", *REFUSED, *COUNTED)


@dataclass(frozen=True)
class CleaningRules:
    """The settings that cleaning depends on."""

    longest: int  # characters of a text
    most: int  # labels of a row, 0: any number
    invalid: str  # bytes that are not UTF-8: error or replace
    nulls: str  # texts that are missing: error or empty


def cleaning_rules(config: Config, split: str) -> CleaningRules:
    """Only training rows are cut to their most relevant labels."""
    most = config.corpus.max_labels_per_instance if split == "train" else 0
    return CleaningRules(config.corpus.max_text_chars, most, config.text.invalid, config.text.nulls)


@dataclass
class RowFacts:
    """What was seen of some rows, by the names of COUNTS; of what is refused the first id in order, if any has one."""

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    examples: dict[str, str] = field(default_factory=dict)

    def count(self, name: str, rows: np.ndarray, ids: pa.Array) -> None:
        """`rows`: a flag for each row."""
        self.counts[name] += int(np.count_nonzero(rows))
        if name in REFUSED and rows.any():
            example = pc.min(ids.filter(pa.array(rows))).as_py()
            if example is not None:
                self.examples[name] = min(example, self.examples.get(name, example))

    def add(self, other: RowFacts) -> None:
        for name, count in other.counts.items():
            self.counts[name] += count
        for name, example in other.examples.items():
            self.examples[name] = min(example, self.examples.get(name, example))


@dataclass(frozen=True)
class CleanRows:
    """Those of some rows that have labels; labels in order, each once."""

    ids: pa.Array  # string
    texts: pa.Array  # string
    indptr: np.ndarray
    refs: np.ndarray  # int64, or strings as objects
    relevance: np.ndarray  # float32, above 0


def cleaned(batch: pa.RecordBatch, rules: CleaningRules, facts: RowFacts) -> CleanRows:
    """The rows of a batch with COLUMNS id string, text string, refs list<int64 or string> and relevance list<double> or
    null. `facts` gets what is seen; what is refused is left out or mended."""
    facts.counts["rows"] += batch.num_rows
    ids = batch.column("id")
    facts.count("null_ids", _nulls(ids), ids)
    texts = _clean_texts(batch.column("text"), ids, rules, facts)
    rows, refs, relevance = _clean_pairs(batch.column("refs"), batch.column("relevance"), ids, rules, facts)
    sizes = np.bincount(rows, minlength=batch.num_rows)
    facts.counts["rows_with_labels"] += int(np.count_nonzero(sizes))
    has = pa.array(sizes > 0)
    indptr = np.concatenate([[0], np.cumsum(sizes[sizes > 0])]).astype(np.int64)
    return CleanRows(ids.fill_null("").filter(has), texts.filter(has), indptr, refs, relevance)


def _clean_texts(texts: pa.Array, ids: pa.Array, rules: CleaningRules, facts: RowFacts) -> pa.Array:
    missing = _nulls(texts)
    facts.count("null_texts" if rules.nulls == "error" else "texts_missing", missing, ids)
    texts = texts.fill_null("")
    texts, odd = valid_texts(texts)
    facts.count("not_utf8" if rules.invalid == "error" else "texts_not_utf8", odd, ids)
    bytes_of = pc.binary_length(texts).to_numpy(zero_copy_only=False)
    replaced = pc.match_substring(texts, "\ufffd").to_numpy(zero_copy_only=False)
    facts.count("texts_with_replaced_characters", replaced, ids)
    if bytes_of.max(initial=0) <= rules.longest:
        return texts
    facts.count("texts_cut", pc.utf8_length(texts).to_numpy(zero_copy_only=False) > rules.longest, ids)
    return pc.utf8_slice_codeunits(texts, 0, rules.longest)


def valid_texts(texts: pa.Array) -> tuple[pa.Array, np.ndarray]:
    """The texts with U+FFFD for what is not UTF-8, and which of them had such bytes. Nulls stay."""
    if _is_utf8(texts):
        return texts, np.zeros(len(texts), bool)
    raw = texts.cast(pa.binary())
    whole = pa.array(
        [None if text is None else text.decode("utf-8", "replace") for text in raw.to_pylist()], pa.string()
    )
    changed = pc.not_equal(whole.cast(pa.binary()), raw).fill_null(False)
    return whole, changed.to_numpy(zero_copy_only=False)


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _clean_pairs(
    refs: pa.Array, relevance: pa.Array, ids: pa.Array, rules: CleaningRules, facts: RowFacts
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, reference, relevance) of the pairs that stay, in the order of row and reference."""
    sizes, flat = _lists(refs)
    rows = np.repeat(np.arange(len(refs)), sizes)
    facts.count("rows_without_labels", sizes == 0, ids)
    facts.count("null_labels", _rows_with(_nulls(flat), rows, len(refs)), ids)
    weights = _weights(relevance, sizes, rows, ids, facts)
    known = ~_nulls(flat) & (weights > 0)
    if not known.all():
        rows, weights, flat = rows[known], weights[known], flat.filter(pa.array(known))
    values, order_of = _orderable(flat)
    if not _increasing(rows, order_of):
        order = np.lexsort((-weights, order_of, rows))
        rows, weights, values, order_of = rows[order], weights[order], values[order], order_of[order]
        first = np.ones(len(rows), bool)
        first[1:] = (rows[1:] != rows[:-1]) | (order_of[1:] != order_of[:-1])
        facts.counts["pairs_repeated"] += int(len(first) - np.count_nonzero(first))
        rows, weights, values, order_of = rows[first], weights[first], values[first], order_of[first]
    if rules.most and len(rows) and np.bincount(rows).max() > rules.most:
        best = _best(rows, order_of, weights, rules.most)
        facts.counts["pairs_over_the_limit"] += len(rows) - len(best)
        rows, weights, values = rows[best], weights[best], values[best]
    return rows, values, weights


def _weights(
    relevance: pa.Array, sizes: np.ndarray, rows: np.ndarray, ids: pa.Array, facts: RowFacts
) -> np.ndarray:
    """A float32 for each pair: 1 where there is none given."""
    weights = np.ones(len(rows), np.float32)
    if relevance.null_count == len(relevance):
        return weights
    given = ~_nulls(relevance)
    lengths, flat = _lists(relevance)
    uneven = given & (lengths != sizes)
    facts.count("uneven", uneven, ids)
    with np.errstate(over="ignore"):  # too large is infinite, which is refused
        numbers = flat.to_numpy(zero_copy_only=False).astype(np.float32)
    of = np.repeat(np.arange(len(lengths)), lengths)
    facts.count("not_numbers", _rows_with(~np.isfinite(numbers), of, len(ids)), ids)
    facts.counts["pairs_not_above_0"] += int(np.count_nonzero(numbers <= 0))
    even = given & ~uneven
    weights[even[rows]] = np.nan_to_num(numbers[even[of]], nan=0.0, posinf=0.0, neginf=0.0)
    return weights


def _best(rows: np.ndarray, order_of: np.ndarray, weights: np.ndarray, most: int) -> np.ndarray:
    """Places, in order, of each row's `most` most relevant pairs, ties by reference."""
    ranked = np.lexsort((order_of, -weights, rows))
    of = rows[ranked]
    starts = np.searchsorted(of, of)
    return np.sort(ranked[np.arange(len(of)) - starts < most])


def _orderable(flat: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(references, numbers that have their order)."""
    if pa.types.is_integer(flat.type):
        numbers = flat.to_numpy(zero_copy_only=False)
        return numbers, numbers
    texts = flat.to_numpy(zero_copy_only=False)
    return texts, pc.rank(flat, tiebreaker="dense").to_numpy().astype(np.int64)


def _increasing(rows: np.ndarray, values: np.ndarray) -> bool:
    return bool(np.all((rows[1:] > rows[:-1]) | (values[1:] > values[:-1])))


def _lists(lists: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """(lengths, all values) of a list column; a null is an empty list."""
    sizes = pc.list_value_length(lists).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes, lists.flatten()


def _rows_with(flags: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    found = np.zeros(count, bool)
    found[rows[flags]] = True
    return found


def _nulls(array: pa.Array) -> np.ndarray:
    if not array.null_count:
        return np.zeros(len(array), bool)
    flags: np.ndarray = array.is_null().to_numpy(zero_copy_only=False)
    return flags
