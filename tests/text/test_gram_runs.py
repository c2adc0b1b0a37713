"""Counts that were cut, packed, sent and added up in parts are the counts of the whole, and lead to the same choice."""

from collections import Counter as Tally

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.text import gram_runs
from xmcspark.text.counts import gram_counts, gram_counts_in_parts
from xmcspark.text.gram_runs import GramRun, RunMerger, expected_grams, gram_ranges, merged, names_only
from xmcspark.text.selection import (
    Piece,
    choose,
    histogram,
    packed_histogram,
    unpacked_histogram,
)
from xmcspark.text.settings import TfidfSettings, Vectorizer
from xmcspark.text.vocabulary import kept_grams

grams = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=5)
tallies = st.dictionaries(grams, st.integers(1, 5), max_size=12)


def run_of(tally):
    names = sorted(tally)  # Python orders text by code points, as UTF-8 bytes are ordered
    counts = np.array([tally[name] for name in names], np.int64)
    return GramRun(pa.array(names, pa.large_string()), counts, 3 * counts)


def as_dict(run):
    assert run.gram.to_pylist() == sorted(set(run.gram.to_pylist()))
    assert np.array_equal(run.occurrences, 3 * run.df)
    return dict(zip(run.gram.to_pylist(), run.df.tolist(), strict=True))


@given(st.lists(tallies, max_size=5))
def test_runs_add_up_whatever_their_order(parts):
    total = sum((Tally(part) for part in parts), Tally())
    runs = [run_of(part) for part in parts]
    assert as_dict(merged(runs)) == as_dict(merged(runs[::-1])) == dict(total)


@given(st.lists(tallies, max_size=6), tallies)
def test_a_merger_adds_up_and_knows_what_is_new(parts, known):
    merger = RunMerger()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gram_runs, "_MERGE_AT", 4)
        merger._merge_at = 4
        for part in parts:
            merger.add(GramRun.unpacked(run_of(part).packed()))
    merger.add_known(names_only(pa.array(list(known), pa.string())))
    total = merger.total()
    assert as_dict(total) == dict(sum((Tally(part) for part in parts), Tally()))
    assert merger.is_new(total).tolist() == [gram not in known for gram in total.gram.to_pylist()]


@given(tallies, st.integers(1, 5), st.integers(1, 60))
def test_chunks_are_the_run_again(tally, size, most_bytes):
    chunks = list(run_of(tally).chunks(size, most_bytes))
    assert all(1 <= len(chunk) <= size for chunk in chunks)
    assert as_dict(merged(chunks)) == tally
    assert [gram for chunk in chunks for gram in chunk.gram.to_pylist()] == sorted(tally)


TEXTS = [f"red shoe{i % 50} größe {i % 9} {'x' * (i % 4)}" for i in range(400)]


@pytest.mark.parametrize("ranges", [1, 2, 9, 40])
def test_ranges_cut_counts_in_the_order_of_vectorizer_and_gram(ranges):
    settings = TfidfSettings()
    cut = gram_ranges(gram_counts(TEXTS[:30], settings), 2, ranges)
    assert 2 <= len(cut) <= ranges + 2
    counts = gram_counts(TEXTS, settings)
    parts = list(cut.cut_counts(counts))
    assert [number for number, _ in parts] == sorted({number for number, _ in parts})
    assert [g for _, run in parts for g in run.gram.to_pylist()] == counts.gram.to_pylist()
    of = np.repeat([cut.vectorizer[number] for number, _ in parts], [len(run) for _, run in parts])
    assert np.array_equal(of, counts.vectorizer)


def test_the_expected_number_of_grams_is_seldom_too_few():
    settings = TfidfSettings((Vectorizer("word", (1, 1)),))
    fresh = [f"word{i}" for i in range(1000)]
    assert expected_grams(gram_counts(fresh[:50], settings), 1000) == 1000
    assert expected_grams(gram_counts(["the same"] * 50, settings), 1000) == 2
    assert expected_grams(gram_counts([], settings), 1000) == 0


@pytest.mark.parametrize("most", [1, 100, 10**6])
def test_counting_in_parts_adds_up_to_counting_at_once(most):
    settings = TfidfSettings((Vectorizer("word", (1, 2)),))
    arrays = [pa.array(TEXTS[at : at + 64]) for at in range(0, len(TEXTS), 64)]
    parts = list(gram_counts_in_parts(arrays, settings, most))
    assert len(parts) == {1: 7, 10**6: 1}.get(most, len(parts))
    whole = gram_counts(TEXTS, settings)
    total = merged([GramRun(part.gram, part.df, part.occurrences) for part in parts])
    assert total.gram.equals(whole.gram)
    assert np.array_equal(total.df, whole.df)
    assert np.array_equal(total.occurrences, whole.occurrences)


def test_no_texts_are_no_parts():
    assert list(gram_counts_in_parts([], TfidfSettings(), 10)) == []


@given(
    st.lists(st.lists(st.integers(1, 6), max_size=8), min_size=1, max_size=6),
    st.one_of(st.none(), st.integers(0, 30)),
    st.integers(0, 5),
)
def test_pieces_choose_what_the_whole_would(pieces, limit, first):
    runs = []
    for p, occurrences in enumerate(pieces):
        names = pa.array([f"{p}-{i}" for i in range(len(occurrences))], pa.large_string())
        runs.append(GramRun(names, np.ones(len(names), np.int64), np.array(occurrences, np.int64)))
    known = [Piece(0, len(r), *unpacked_histogram(packed_histogram(*histogram(r)))) for r in runs]
    choices = choose(known, [limit], first)
    chosen = [choice.of(run) for choice, run in zip(choices, runs, strict=True)]
    whole = np.concatenate([run.occurrences for run in runs])
    names = pa.concat_arrays([run.gram for run in runs])
    if limit == 0:
        expected = []
    else:
        options = Vectorizer(max_features=limit)
        expected = names.take(pa.array(kept_grams(np.ones_like(whole), whole, options, 10))).to_pylist()
    assert [g for run in chosen for g in run.gram.to_pylist()] == expected
    sizes = [len(run) for run in chosen]
    assert [choice.features for choice in choices] == sizes
    assert [choice.first for choice in choices] == [first + sum(sizes[:i]) for i in range(len(sizes))]
