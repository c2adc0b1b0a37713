"""Co-occurrence equals YᵀY exactly, however instances are split; caps keep what they promise and count the rest."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from xmcspark.errors import InputError
from xmcspark.labels import packed_sums
from xmcspark.labels.cooccurrence import (
    Neighbours,
    alone,
    capped_labels,
    cooccurrence_parts,
    counted_neighbours,
    graph_on_disk,
    joined_neighbours,
    neighbours_of,
)
from xmcspark.labels.label_sums import add_label_sums, label_sums
from xmcspark.labels.packed_sums import BlockSums, packed_by_block
from xmcspark.sparse.csr import as_csr
from xmcspark.sparse.spgemm import Cut

ALL = 10**6


def cooccurrence_sums(Y, threads=1):
    return add_label_sums(cooccurrence_parts(Y, threads), threads=threads)


def labels_of(seed, rows=60, labels=25, density=0.1):
    Y = sp.random(rows, labels, density, format="csr", dtype=np.float32, random_state=seed)
    Y.sort_indices()
    return Y


def dense(found, labels):
    G = np.zeros((labels, labels), np.int64)
    G[np.repeat(found.labels, np.diff(found.indptr)), found.neighbours] = found.counts
    return G


def counted(Y):
    ones = (Y.toarray() != 0).astype(np.int64)
    return ones.T @ ones


def assert_same(one, other):
    for name in ("labels", "indptr", "neighbours", "counts", "own"):
        a, b = getattr(one, name), getattr(other, name)
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


@given(seed=st.integers(0, 2**32 - 1), density=st.sampled_from([0.0, 0.02, 0.3]), threads=st.integers(1, 3))
def test_counts_are_those_of_scipy_whatever_the_values_of_y(seed, density, threads):
    Y = labels_of(seed, density=density)
    if Y.nnz:
        Y.data[0] = 0  # stored, but no label
    G = counted(Y)
    found, cut = neighbours_of(cooccurrence_sums(as_csr(Y), threads), ALL)
    np.testing.assert_array_equal(dense(found, 25), G)
    np.testing.assert_array_equal(found.own, np.diag(G)[found.labels])
    np.testing.assert_array_equal(found.labels, np.flatnonzero(np.diag(G)))
    assert cut == Cut()


@given(
    seed=st.integers(0, 2**32 - 1),
    cuts=st.lists(st.integers(0, 60), max_size=5),
    most=st.sampled_from([3, ALL]),
)
def test_neighbours_do_not_depend_on_how_instances_are_split(seed, cuts, most):
    Y = labels_of(seed)
    whole = neighbours_of(cooccurrence_sums(as_csr(Y)), most)
    order = np.random.default_rng(seed).permutation(60)
    parts = [cooccurrence_sums(as_csr(Y[rows])) for rows in np.split(order, sorted(cuts))]
    split = neighbours_of(add_label_sums(parts[::-1]), most)
    assert_same(whole[0], split[0])
    assert whole[1] == split[1]


def test_neighbours_of_blocks_of_labels_join_to_the_whole(monkeypatch):
    monkeypatch.setattr(packed_sums, "_PAYLOAD_ENTRIES", 16)
    Y = labels_of(5, rows=200)
    blocks = {number: BlockSums(number, 7, 25, 1) for number in range(4)}
    for rows in np.split(np.arange(200), [50, 90, 160]):
        for number, payload in packed_by_block(cooccurrence_sums(as_csr(Y[rows])), 7):
            blocks[number].add(payload)
    found = [neighbours_of(block.total(), 4)[0] for block in blocks.values()]
    assert_same(joined_neighbours(found[::-1]), neighbours_of(cooccurrence_sums(as_csr(Y)), 4)[0])


@given(seed=st.integers(0, 2**32 - 1), most=st.integers(1, 8))
def test_a_label_keeps_itself_and_its_largest_counts_lower_ids_first(seed, most):
    Y = labels_of(seed, density=0.2)
    G = counted(Y)
    found, cut = neighbours_of(cooccurrence_sums(as_csr(Y)), most)
    kept = 0
    for place, j in enumerate(found.labels):
        others = sorted((i for i in np.flatnonzero(G[j]) if i != j), key=lambda i: (-G[j, i], i))
        wanted = sorted([j, *others[:most]])
        row = slice(found.indptr[place], found.indptr[place + 1])
        np.testing.assert_array_equal(found.neighbours[row], wanted)
        np.testing.assert_array_equal(found.counts[row], G[j, wanted])
        kept += len(wanted)
    over = int(((np.count_nonzero(G, axis=1) - 1) > most).sum())
    assert cut == Cut(over, int(np.count_nonzero(G)) - kept)


def test_probability_is_the_count_over_the_labels_own_rounded_once():
    Y = np.zeros((10, 2))
    Y[:, 0] = 1
    Y[:3, 1] = 1
    found, _ = neighbours_of(cooccurrence_sums(as_csr(Y)), ALL)
    np.testing.assert_array_equal(found.ratio, [1.0, 3 / 10, 1.0, 1.0])
    assert found.probability.dtype == np.float32
    np.testing.assert_array_equal(found.probability, np.float32([1.0, 3 / 10, 1.0, 1.0]))


@given(seed=st.integers(0, 2**32 - 1), most_pairs=st.integers(1, 200))
def test_parts_of_bounded_work_add_up_to_the_whole(seed, most_pairs):
    Y = as_csr(labels_of(seed))
    pairs = np.diff(Y.indptr) ** 2
    parts = list(cooccurrence_parts(Y, most_pairs=most_pairs))
    for part in parts:  # as many sums as pairs at most, unless one instance has more
        assert part.sums.sum() <= max(most_pairs, pairs.max(initial=0))
    whole = neighbours_of(cooccurrence_sums(Y), ALL)[0]
    assert_same(neighbours_of(add_label_sums(parts), ALL)[0], whole)


@given(seed=st.integers(0, 2**32 - 1), most=st.sampled_from([2, ALL]), most_pairs=st.integers(1, 400))
def test_counting_some_labels_after_the_other_gives_the_same(seed, most, most_pairs):
    Y = as_csr(labels_of(seed, density=0.15))
    whole, cut = neighbours_of(cooccurrence_sums(Y), most)
    found, found_cut = counted_neighbours(Y, most, most_pairs=most_pairs)
    assert_same(found, whole)
    assert found_cut == cut


def test_what_is_cut_is_never_held_all_at_once(monkeypatch):
    held = []

    def counted(sums, most):
        held.append(len(sums.indices))
        return neighbours_of(sums, most)

    monkeypatch.setattr("xmcspark.labels.cooccurrence.neighbours_of", counted)
    Y = as_csr(labels_of(2, rows=300, density=0.3))
    counted_neighbours(Y, 3, most_pairs=2500)
    assert len(held) > 5
    assert sum(held) == 25 * 25
    assert max(held) <= 5 * 25


def test_no_instances_have_no_neighbours():
    for labels in (0, 4):
        found, cut = counted_neighbours(as_csr(sp.csr_matrix((0, labels))), 5)
        assert (len(found.labels), found.indptr.tolist(), cut) == (0, [0], Cut())


@given(seed=st.integers(0, 2**32 - 1), most=st.integers(1, 6), cut=st.integers(0, 60))
def test_which_labels_of_an_instance_count_is_decided_by_its_key(seed, most, cut):
    Y = as_csr(labels_of(seed, density=0.2))
    keys = np.random.default_rng(seed).integers(-(2**63), 2**63 - 1, 60)
    capped, rows, entries = capped_labels(Y, keys, most, seed)
    lengths = np.diff(Y.indptr)
    np.testing.assert_array_equal(np.diff(capped.indptr), np.minimum(lengths, most))
    assert (rows, entries) == (np.count_nonzero(lengths > most), Y.nnz - capped.nnz)
    assert (capped.to_scipy() > Y.to_scipy()).nnz == 0
    matrix = Y.to_scipy()
    for part in (slice(0, cut), slice(cut, 60)):
        alone_capped = capped_labels(as_csr(matrix[part]), keys[part], most, seed)[0]
        assert (alone_capped.to_scipy() != capped.to_scipy()[part]).nnz == 0


def test_all_labels_of_large_instances_have_the_same_chance():
    Y = as_csr(np.ones((2000, 20)))
    capped, _, _ = capped_labels(Y, np.arange(2000), 5, seed=3)
    times = np.bincount(capped.indices)
    assert abs(times - 500).max() < 100  # 5 standard deviations
    other, _, _ = capped_labels(Y, np.arange(2000), 5, seed=4)
    assert (other.indices != capped.indices).any()


def test_an_instance_with_very_many_labels_costs_no_more_than_the_cap():
    Y = as_csr(sp.csr_matrix(np.ones((1, 20_000), np.float32)))
    capped, rows, entries = capped_labels(Y, np.array([7]), 100, seed=0)
    assert (rows, entries) == (1, 19_900)
    assert len(cooccurrence_sums(capped).indices) == 100 * 100


def test_a_saved_graph_is_mapped_and_the_same(tmp_path):
    graph = neighbours_of(cooccurrence_sums(as_csr(labels_of(3))), 4)[0]
    graph.save(tmp_path / "graph")
    assert_same(Neighbours.load(tmp_path / "graph"), graph)
    with pytest.raises(InputError, match="not a saved label graph"):
        Neighbours.load(tmp_path)


def test_a_graph_on_disk_is_filled_by_parts_in_any_order(tmp_path):
    graph = counted_neighbours(as_csr(labels_of(3)), 4)[0]
    parts = [graph.take(np.arange(9, len(graph.labels))), graph.take(np.arange(9))]
    sizes = [(part.labels, np.diff(part.indptr), part.own) for part in parts]
    found = graph_on_disk(iter(sizes), tmp_path)
    for part in parts:
        found.fill(part)
    assert_same(found, graph)


def test_rows_taken_and_joined_are_the_whole_again():
    graph = joined_neighbours(
        [neighbours_of(cooccurrence_sums(as_csr(labels_of(3))), 4)[0], alone(np.int32([25]))]
    )
    odd, even = np.arange(len(graph.labels)) % 2 == 1, np.arange(len(graph.labels)) % 2 == 0
    parts = [graph.take(np.flatnonzero(odd)), graph.take(np.flatnonzero(even))]
    assert_same(joined_neighbours(parts), graph)


def test_sums_that_are_no_cooccurrence_are_refused():
    Y = labels_of(1)
    X = as_csr(Y[:, ::-1])
    with pytest.raises(InputError, match="does not occur with itself"):
        neighbours_of(label_sums(X, Y, grid=2.0**-30), 5)
    with pytest.raises(InputError, match="3 row keys for 60 rows"):
        capped_labels(as_csr(Y), np.arange(3), 5, 0)
    with pytest.raises(InputError, match="row pointers"):
        Neighbours(*(np.zeros(2, np.int32) for _ in range(5)))
