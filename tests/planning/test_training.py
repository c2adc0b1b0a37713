"""The training that is planned is the one that will be: same tree, units and schedule; only rows are estimates."""

from itertools import pairwise

import numpy as np
import pytest

from xmcspark import Tfidf, build_tree, pifa
from xmcspark.config.configuration import load
from xmcspark.corpus.synthetic import generate
from xmcspark.errors import ConfigError
from xmcspark.labels import block_sums_spark
from xmcspark.matchers.schedule import plan_tasks, plan_waves, slot_balance
from xmcspark.planning import work
from xmcspark.planning.costs import load_costs
from xmcspark.planning.label_spread import (
    capped_pairs,
    expected_counts,
    exponent_for,
    leaf_shares,
    togetherness,
    zipf_total,
)
from xmcspark.planning.statistics import Fact, completed
from xmcspark.planning.training import expected_tree, planned_training
from xmcspark.store import direct_tables
from xmcspark.tree import build_spark, index_spark
from xmcspark.tree.node_inputs import NodeInputs, add_rows
from xmcspark.tree.paths import LabelPaths
from xmcspark.tree.units import node_starts, plan_units

GUESSES = load_costs().guesses


def _statistics(config, instances=50_000, labels=10_000, pairs=100_000):
    given = {"instances": instances, "labels": labels, "pairs": pairs}
    return completed({name: Fact(value, "test") for name, value in given.items()}, config, GUESSES)[0]


@pytest.mark.parametrize("labels", [1, 50, 97, 700, 3201])
@pytest.mark.parametrize("settings", [[], ["tree.branching=4", "tree.max_leaf=10"], ["tree.shape=[1]"]])
def test_the_tree_has_the_shape_that_index_builds(labels, settings):
    config = load(None, settings)
    Z = np.random.default_rng(0).random((labels, 5), np.float32)
    built, planned = build_tree(Z, config.tree), expected_tree(labels, config)
    assert planned.level_sizes == built.level_sizes
    for a, b in zip(planned.child_ptr[:-1], built.child_ptr[:-1], strict=True):
        assert np.array_equal(a, b)
    assert np.ptp(np.diff(planned.child_ptr[-1])) <= 1  # as balanced as it can be
    assert np.diff(built.child_ptr[-1]).max() <= np.diff(planned.child_ptr[-1]).max() + 1


@pytest.fixture(scope="module")
def small():
    """A corpus with its real tree and what its nodes are trained on."""
    data = generate(6000, 1200, seed=3)
    X, Y = Tfidf().fit_transform(data.train.texts), data.train.Y.tocsr()
    tree = build_tree(pifa(X, Y), max_leaf=16, branching=4)
    inputs, number = NodeInputs.zeros(int(node_starts(tree)[-1])), np.arange(Y.shape[0])
    indptr = Y.indptr.astype(np.int64)
    add_rows(inputs, LabelPaths.of(tree), indptr, Y.indices, number, number, np.diff(X.indptr))
    return X, Y, tree, inputs.counts


def test_rows_of_nodes_are_about_those_of_a_real_tree(small):
    X, Y, tree, real = small
    together = togetherness(tree, real)
    exponent = exponent_for(np.bincount(Y.indices).max() / Y.nnz, Y.shape[1])
    planned = expected_counts(tree, Y.shape[0], Y.nnz, X.nnz / X.shape[0], exponent, together)
    assert (planned.rows[0], planned.nnz[0]) == (real.rows[0], real.nnz[0])
    starts = node_starts(tree)
    for level in range(1, tree.depth):
        here = slice(starts[level], starts[level + 1])
        for name in ("rows", "nnz", "targets"):
            assert getattr(planned, name)[here].sum() == pytest.approx(
                getattr(real, name)[here].sum(), rel=0.1
            )
    units = [plan_units(tree, counts, 16) for counts in (planned, real)]
    loads = [sum(unit.load for unit in of) for of in units]
    assert loads[0] == pytest.approx(loads[1], rel=0.1)
    assert len(units[0]) == pytest.approx(len(units[1]), rel=0.25)


def test_rows_lie_between_all_labels_apart_and_all_together(small):
    _, Y, tree, _ = small
    apart, together = (expected_counts(tree, Y.shape[0], Y.nnz, 40.0, 0.6, c).rows for c in (0.0, 2.0))
    leaves = slice(node_starts(tree)[-2], None)
    assert together[leaves].sum() == pytest.approx(Y.shape[0], rel=0.01)  # a row is in one leaf
    assert 0.9 * Y.nnz < apart[leaves].sum() <= Y.nnz


def test_the_schedule_is_the_one_that_train_makes():
    config = load(None, ["train.waves=3"])
    training = planned_training(config, _statistics(config), GUESSES.together)
    schedule = training.schedule(4)
    waves = [plan_tasks(wave, 4) for wave in plan_waves(training.steps[0], 3)]
    assert (schedule.waves, schedule.tasks) == (3, sum(map(len, waves)))
    assert schedule.balance == pytest.approx(slot_balance(waves, 4))
    assert schedule.busiest == pytest.approx(schedule.balance * training.load / 4, rel=1e-6)


def test_more_slots_never_make_training_longer_and_at_least_the_heaviest_unit_remains():
    config = load(None, [])
    training = planned_training(config, _statistics(config), GUESSES.together)
    busiest = [training.schedule(slots).busiest for slots in (1, 2, 4, 8, 16, 64, 256)]
    assert busiest[0] == training.load
    assert all(more <= 1.02 * fewer for fewer, more in pairwise(busiest))
    assert busiest[-1] > 0


def test_matcher_aware_negatives_are_trained_level_by_level():
    config = load(None, ["train.negatives=tfn+man"])
    training = planned_training(config, _statistics(config), GUESSES.together)
    assert len(training.steps) == training.work.tree.depth
    plain = planned_training(load(None, []), _statistics(config), GUESSES.together)
    assert training.load > plain.load


def test_members_of_an_ensemble_are_all_trained():
    config = load(None, ["ensemble.members=3"])
    one, three = (planned_training(c, _statistics(c), 0.5) for c in (load(None, []), config))
    assert three.load == 3 * one.load


def test_a_plan_for_a_hundred_million_labels_holds_no_array_as_long():
    config = load(None, [])
    tree = expected_tree(100_000_000, config)
    assert tree.labels.strides == (0,)
    assert max(len(ptr) for ptr in tree.child_ptr) < 2_000_000


def test_shares_of_leaves_add_up_and_the_heaviest_holds_the_top_label():
    for labels in (1000, 5_000_000):
        ptr = np.arange(labels // 50 + 1) * 50
        shares = leaf_shares(ptr, 0.9)
        assert shares.sum() == pytest.approx(1)
        assert shares.max() >= 1 / zipf_total(labels, 0.9)


def test_an_exponent_is_found_from_the_share_of_the_top_label():
    for exponent in (0.0, 0.5, 1.0, 1.4):
        assert exponent_for(1 / zipf_total(3000, exponent), 3000) == pytest.approx(exponent, abs=1e-6)


def test_pairs_beyond_the_cap_of_a_label_do_not_count():
    assert capped_pairs(1000, 10, 0.0, 50) == pytest.approx(500)
    assert capped_pairs(1000, 10, 0.0, None) == 1000


def test_numbers_of_spark_stages_that_a_plan_repeats_are_the_same():
    assert work.WHOLE_ENTRIES == build_spark.WHOLE_ENTRIES
    assert work.FEWEST_SUB_TREES == build_spark._FEWEST_SUB_TREES
    assert work.TREE_ENTRY_BYTES == index_spark._ENTRY_BYTES
    assert work.GROUP_ROWS == block_sums_spark.GROUP_ROWS
    assert (work.TASKS_PER_SLOT, work.GROUP_BYTES) == (
        direct_tables._TASKS_PER_SLOT,
        direct_tables.GROUP_BYTES,
    )


def test_a_large_tree_is_built_side_by_side_and_a_sampled_one_with_less_memory():
    config = load(None, [])
    small = _statistics(config)
    assert work.tree_building(config, small, 1) == work.tree_building(config, small, 8)  # one task
    large = _statistics(config, 5_000_000, 1_000_000, 10_000_000)
    assert large.label_entries > work.WHOLE_ENTRIES
    one, eight = (work.tree_building(config, large, slots) for slots in (1, 8))
    assert eight.passes < one.passes
    sampled = work.tree_building(load(None, ["tree.sample_labels=100000"]), large, 8)
    assert sampled.task_bytes < 0.2 * eight.task_bytes
    assert sampled.passes < eight.passes


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("mach", "knows trees only"),
        ("xr-transformer", "does not know encoders"),
        ("unidec", "method is unidec, and plan does not know encoders"),
    ],
)
def test_what_cannot_be_planned_is_said(method, said):
    config = load(None, [f"method={method}"])
    with pytest.raises(ConfigError, match=said):
        planned_training(config, _statistics(config), GUESSES.together)
