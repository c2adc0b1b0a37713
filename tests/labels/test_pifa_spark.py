"""PIFA in parts equals PIFA of the whole: blocks of labels, groups of rows and empty partitions leave no trace."""

from functools import partial

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse as sp

from xmcspark.errors import InputError
from xmcspark.labels import packed_sums
from xmcspark.labels.block_sums_spark import PART_COLUMNS
from xmcspark.labels.features import pifa
from xmcspark.labels.instance_cap import InstanceCap
from xmcspark.labels.label_sums import label_sums, pifa_grid
from xmcspark.labels.packed_sums import BlockSums, packed_by_block
from xmcspark.labels.pifa_spark import LABEL_ROWS, PifaPlan, label_rows, routed_sums
from xmcspark.labels.referred_sums import referred_by_block, referred_rows
from xmcspark.matchers.row_store import keep_rows
from xmcspark.sparse.csr import as_csr
from xmcspark.sparse.packing import packed, unpacked
from xmcspark.sparse.rows import take_rows
from xmcspark.store.direct_tables import FrameRows
from xmcspark.text.feature_table import FeatureSpace
from xmcspark.tree.index_spark import STAGE

ROWS, FEATURES, LABELS = 300, 40, 50


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(3)
    X = sp.random(ROWS, FEATURES, 0.2, format="csr", dtype=np.float32, random_state=rng)
    Y = sp.random(ROWS, LABELS, 0.05, format="csr", dtype=np.float32, random_state=rng)
    Y.data[:] = 1.0
    return X, Y


def _plan(X, Y, **changes):
    plan = {
        "grid": pifa_grid(X, Y),
        "space": FeatureSpace(FEATURES),
        "label_ids": LABELS,
        "max_features": None,
    }
    plan |= {"cap": None, "seed": 0, "threads": 1, "block_size": 7, "group_rows": 32}
    return PifaPlan(**(plan | changes))


@pytest.mark.parametrize("referred", [False, True])
def test_many_blocks_groups_and_empty_partitions_give_the_whole(
    spark, make_context, problem, tmp_path, referred
):
    X, Y = problem
    rows = [
        (
            X.indices[X.indptr[i] : X.indptr[i + 1]].tolist(),
            X.data[X.indptr[i] : X.indptr[i + 1]].tolist(),
            Y.indices[Y.indptr[i] : Y.indptr[i + 1]].tolist(),
            None,
            i,
        )
        for i in range(ROWS)
    ]
    columns = (
        "indices array<int>, values array<float>, labels array<int>, targets array<float>, row_key bigint"
    )
    features = spark.createDataFrame(rows, columns).repartition(3).where("row_key >= 0")
    features = features.union(spark.createDataFrame([], columns))  # a partition without rows
    labels = spark.createDataFrame([(i,) for i in range(LABELS) if i != 4], "id int")
    store = tmp_path / "rows"
    store.mkdir()
    plan = _plan(X, Y, store=str(store) if referred else None)
    with routed_sums(make_context(STAGE), FrameRows(features), labels, plan, 4) as sums:
        found = sorted(sums.map(PART_COLUMNS, label_rows(plan), LABEL_ROWS).collect())
    Z = pifa(X, Y)
    assert [row.label for row in found] == [i for i in range(LABELS) if i != 4]
    for row in found:
        z = Z[row.label]
        assert row.indices == z.indices.tolist()
        assert np.array(row["values"], np.float32).tobytes() == z.data.tobytes()
    assert sum(row.cut_pairs + row.cut_labels + row.cut_features for row in found) == 0
    assert sum(row.summed for row in found) >= Z.nnz
    assert any(store.iterdir()) == referred


def test_indices_outside_the_tables_are_refused_with_the_remedy(problem):
    from xmcspark.labels.pifa_spark import _parts

    X, Y = problem
    batch = pa.RecordBatch.from_pydict(
        {
            "indices": pa.array([[1, FEATURES]], pa.list_(pa.int32())),
            "values": pa.array([[1.0, 1.0]], pa.list_(pa.float32())),
            "labels": pa.array([[0]], pa.list_(pa.int32())),
            "targets": pa.array([None], pa.list_(pa.float32())),
            "row_key": pa.array([1]),
        }
    )
    with pytest.raises(InputError, match=r"names feature 40, but there are only 40: .* run it again"):
        list(partial(_parts, _plan(X, Y))(iter([batch])))


def test_a_block_without_sums_has_empty_rows():
    Z, cut = BlockSums(1, 8, FEATURES, 1).features(np.array([8, 9], np.int32), None)
    assert (Z.shape, Z.nnz, cut.entries) == ((2, FEATURES), 0, 0)


def test_sums_added_on_the_way_are_the_same(problem, monkeypatch):
    X, Y = problem
    grid = pifa_grid(X, Y)
    parts = [label_sums(X[a : a + 20], Y[a : a + 20], grid=grid) for a in range(0, ROWS, 20)]
    payloads = [payload for part in parts for block, payload in packed_by_block(part, 7) if block == 1]
    found = []
    for held in (1, 10**9):
        monkeypatch.setattr(packed_sums, "_HELD_ENTRIES", held)
        sums = BlockSums(1, 7, FEATURES, 1)
        for payload in payloads:
            sums.add(payload)
        found.append(sums.features(np.arange(7, 14, dtype=np.int32), 3)[0])
    assert found[0].data.tobytes() == found[1].data.tobytes()
    assert np.array_equal(found[0].indices, found[1].indices)


@pytest.mark.parametrize("held", [1, 10**9])  # added up on the way, or all at once
def test_features_of_rows_that_are_referred_to_are_those_of_their_sums(problem, tmp_path, monkeypatch, held):
    monkeypatch.setattr(packed_sums, "_HELD_ROWS", held)
    X, Y = problem
    soft = as_csr(Y.copy())
    soft.data[:] = np.random.default_rng(0).random(soft.nnz, np.float32)
    grid = pifa_grid(X, soft)
    referred, summed = (BlockSums(1, 7, FEATURES, 1, grid) for _ in range(2))
    for rows in np.array_split(np.arange(ROWS), 5):
        part, of_part = as_csr(X[rows]), take_rows(soft, rows)
        store = keep_rows(tmp_path, part)
        for block, payload in referred_by_block(of_part, store, 7):
            found = referred_rows(tmp_path, payload)
            assert set((found.labels // 7).tolist()) == {block}
            if block == 1:
                referred.add_rows(found)
        for block, payload in packed_by_block(label_sums(part, of_part, grid=grid), 7):
            if block == 1:
                summed.add(payload)
    ids = np.arange(7, 14, dtype=np.int32)
    for most in (None, 3):
        (Z, cut), (expected, of_sums) = (sums.features(ids, most) for sums in (referred, summed))
        assert cut == of_sums
        assert np.array_equal(Z.indptr, expected.indptr)
        assert np.array_equal(Z.indices, expected.indices)
        assert Z.data.tobytes() == expected.data.tobytes()
    assert referred.total().sums.tobytes() == summed.total().sums.tobytes()


def test_payloads_are_of_one_block_and_hold_everything(problem):
    X, Y = problem
    sums = label_sums(X, Y, grid=pifa_grid(X, Y))
    payloads = list(packed_by_block(sums, 7))
    for block, payload in payloads:
        assert set((unpacked(payload)[0] // 7).tolist()) == {block}
    assert np.concatenate([unpacked(p)[0] for _, p in payloads]).tolist() == sums.labels.tolist()
    assert np.concatenate([unpacked(p)[3] for _, p in payloads]).tobytes() == sums.sums.tobytes()


def test_rows_without_labels_send_nothing():
    nothing = label_sums(sp.csr_matrix((3, FEATURES)), sp.csr_matrix((3, LABELS)), grid=1.0)
    assert list(packed_by_block(nothing, 7)) == []


def test_packed_arrays_come_back_as_they_were():
    arrays = [np.arange(3, dtype=np.int32), np.zeros(0), np.array([2**64 - 1], np.uint64), np.ones(5, bool)]
    for before, after in zip(arrays, unpacked(packed(*arrays)), strict=True):
        assert before.dtype == after.dtype
        assert np.array_equal(before, after)
    with pytest.raises(InputError, match="no packed arrays"):
        unpacked(b"abc")


def test_the_cap_keeps_about_as_many_pairs_as_it_says_and_all_of_other_labels():
    cap = InstanceCap.of(np.array([9, 2, 5]), np.array([40_000, 50, 10_000]), 1_000)
    assert cap.labels.tolist() == [5, 9]
    keys = np.random.default_rng(0).integers(-(2**63), 2**63, 40_000)
    for label, positives in ((9, 40_000), (5, 10_000)):
        kept = cap.stays(np.full(positives, label, np.int32), keys[:positives], 0)
        assert abs(kept.sum() - 1_000) < 150
        other_seed = cap.stays(np.full(positives, label, np.int32), keys[:positives], 1)
        assert not np.array_equal(kept, other_seed)
    assert cap.stays(np.full(50, 2, np.int32), keys[:50], 0).all()
