"""How rows of a ready corpus are cleaned: against a few lines of plain Python."""

import math

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.corpus.row_cleaning import CleaningRules, RowFacts, cleaned

WEIGHT = st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0])


def batch(rows, kind):
    """Rows (id, text, refs, relevance)."""
    ids, texts, refs, relevance = zip(*rows, strict=True) if rows else ([], [], [], [])
    columns = [
        pa.array(ids, pa.string()),
        pa.array(texts, pa.string()),
        pa.array(refs, pa.list_(kind)),
        pa.array(relevance, pa.list_(pa.float64())),
    ]
    return pa.RecordBatch.from_arrays(columns, names=["id", "text", "refs", "relevance"])


def row_of(number, references):
    def with_weights(refs):
        weights = st.none() | st.lists(WEIGHT, min_size=len(refs), max_size=len(refs))
        return st.tuples(st.just(f"i{number}"), st.text(max_size=6), st.just(refs), weights)

    return st.lists(references, max_size=6).flatmap(with_weights)


def wanted(row, most):
    """{reference: relevance} of the best labels of a row."""
    highest = {}
    for ref, weight in zip(row[2], row[3] or [1.0] * len(row[2]), strict=True):
        if weight > 0:
            highest[ref] = max(weight, highest.get(ref, 0))
    ranked = sorted(highest.items(), key=lambda pair: (-pair[1], pair[0]))
    return dict(ranked[:most] if most else ranked)


def check(rows, kind, most):
    facts = RowFacts()
    found = cleaned(batch(rows, kind), CleaningRules(4, most, "error", "error"), facts)
    kept = [row for row in rows if wanted(row, most)]
    assert found.ids.to_pylist() == [row[0] for row in kept]
    assert found.texts.to_pylist() == [row[1][:4] for row in kept]
    for at, row in enumerate(kept):
        inside = slice(found.indptr[at], found.indptr[at + 1])
        refs = list(found.refs[inside])
        assert refs == sorted(set(refs))
        assert dict(zip(refs, found.relevance[inside], strict=True)) == wanted(row, most)
    assert facts.counts["rows"] == len(rows)
    assert facts.counts["texts_cut"] == sum(len(row[1]) > 4 for row in rows)
    assert facts.counts["rows_without_labels"] == sum(not row[2] for row in rows)


@given(st.data(), st.integers(0, 5), st.integers(0, 3))
def test_numbers_are_kept_once_and_by_relevance(data, count, most):
    check([data.draw(row_of(n, st.integers(0, 5))) for n in range(count)], pa.int64(), most)


@given(st.data(), st.integers(0, 5), st.integers(0, 3))
def test_keys_are_kept_once_and_by_relevance(data, count, most):
    check(
        [data.draw(row_of(n, st.sampled_from(["a", "b", "é", "aa"]))) for n in range(count)],
        pa.string(),
        most,
    )


def test_what_makes_rows_unusable_is_counted_with_the_first_id_of_it():
    rows = [
        ("b", None, [1], None),
        ("a", None, [1], None),
        (None, "x", [1], None),
        ("c", "x", [None, 2], [1.0, 1.0]),
        ("d", "x", [1, 2], [1.0]),
        ("e", "x", [1], [math.nan]),
        ("f", "x", [1], [1e300]),
    ]
    facts = RowFacts()
    cleaned(batch(rows, pa.int64()), CleaningRules(10, 0, "error", "error"), facts)
    refused = ("null_texts", "null_ids", "null_labels", "uneven", "not_numbers")
    assert [facts.counts[name] for name in refused] == [2, 1, 1, 1, 2]
    assert facts.examples == {"null_texts": "a", "null_labels": "c", "uneven": "d", "not_numbers": "e"}


def test_facts_of_parts_add_up_to_those_of_the_whole():
    rows = [("a", "abcdef", [1, 1], None), ("b", None, [], None), ("c", "x", [3, 2], [0.0, 1.0])]
    rules = CleaningRules(3, 1, "error", "error")
    whole, parts = RowFacts(), RowFacts()
    cleaned(batch(rows, pa.int64()), rules, whole)
    for row in reversed(rows):
        part = RowFacts()
        cleaned(batch([row], pa.int64()), rules, part)
        parts.add(part)
    assert parts == whole
