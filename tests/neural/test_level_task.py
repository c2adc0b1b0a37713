"""The loss of a level is equation 9, whatever the head's rows are gathered from."""

import needs_torch  # noqa: F401
import numpy as np
import pytest
import torch
from small_set import LABELS, small_set

from xmcspark.labels.cooccurrence import counted_neighbours
from xmcspark.matchers.trainer import in_one_node
from xmcspark.neural.level_task import LevelTask
from xmcspark.neural.resolutions import resolutions
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.shortlist import united
from xmcspark.sparse.csr import as_csr
from xmcspark.tree.label_tree import LabelTree

CLUSTERS = 6
TREE = LabelTree((np.array([0, CLUSTERS]), np.arange(0, LABELS + 1, 4)), np.arange(LABELS))


def level_task(data, number: int, **changes) -> LevelTask:
    rng = np.random.default_rng(3)
    level = resolutions(TREE, data.Y, data.costs, cost_sensitive=True)[number]
    predicted = in_one_node(len(data))
    if number:
        predicted = as_csr((rng.random((len(data), CLUSTERS)) < 0.3).astype(np.float32))
    width = 64
    weights = rng.standard_normal((level.outputs, width)).astype(np.float32)
    bias = rng.standard_normal(level.outputs).astype(np.float32)
    how = {
        "name": "level",
        "data": data,
        "level": level,
        "shortlist": united(predicted, level.parents),
        "reached": predicted,
        "table": RowTable.create(level.outputs, width, weights=weights, bias=bias),
        "steps": 4,
        "step_rows": 16,
        "train_rows": np.arange(len(data)),
        "held_out": np.arange(0),
        "alpha": 0.5,
        "seed": 1,
    }
    return LevelTask(**{**how, **changes})


def slow_loss(task: LevelTask, E: np.ndarray, rows: np.ndarray) -> float:
    """Equation 9 with soft targets, one pair after the other."""
    Y, R = task.level.Y.to_scipy().toarray(), task.level.R.to_scipy().toarray()
    shortlist = task.shortlist.to_scipy().toarray()
    margins = E @ task.table.weights.T + task.table.bias
    weights = task.data.row_weights
    total = 0.0
    for place, row in enumerate(rows):
        own, other = (1.0, 1.0) if weights is None else weights[row]
        for parent in range(len(task.level.child_ptr) - 1):
            if not shortlist[row, parent]:
                continue
            for child in range(task.level.child_ptr[parent], task.level.child_ptr[parent + 1]):
                y, m = Y[row, child], margins[place, child]
                cost, weight = R[row, child] / R[row].sum(), own if y else other
                total += weight * (y * cost * max(0, 1 - m) ** 2 + (1 - y) * task.alpha * max(0, 1 + m) ** 2)
    return total / len(rows)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("weighed", [False, True])
def test_the_loss_is_that_of_the_paper(tmp_path, tiny_encoder, number, weighed):
    weights = np.tile(np.array([2.0, 0.25], np.float32), (120, 1)) if weighed else None
    data = small_set(tmp_path, tiny_encoder, row_weights=weights)
    data.Y.data[::3] = 0.5  # soft targets
    task = level_task(data, number)
    rows = task.batch(2)
    tiny_encoder.eval()
    with torch.no_grad():
        E = tiny_encoder(data.tokens.batch(rows)).numpy()
    assert float(task.loss(tiny_encoder, rows).detach()) == pytest.approx(slow_loss(task, E, rows), rel=1e-4)


def test_vectors_of_labels_are_pulled_towards_what_occurs_together(tmp_path, tiny_encoder):
    """Paper 5, eq. 1.8, over the outputs of the batch."""
    data = small_set(tmp_path, tiny_encoder)
    plain = level_task(data, 1)
    graph, _ = counted_neighbours(plain.level.Y, 100)
    task = level_task(data, 1, glas=0.5, graph=graph)
    rows = task.batch(0)
    W = task.table.weights[task.outputs_of(rows).outputs]
    Y = task.level.Y.to_scipy().toarray()[:, task.outputs_of(rows).outputs] > 0
    together, own = (Y.T.astype(float) @ Y), Y.sum(axis=0)
    S = 0.5 * (together / own[:, None] + together / own[None, :])
    tiny_encoder.eval()
    added = float(task.loss(tiny_encoder, rows).detach()) - float(plain.loss(tiny_encoder, rows).detach())
    assert added == pytest.approx(0.5 * np.mean((W @ W.T - S) ** 2), rel=1e-3)


def test_only_shortlisted_outputs_are_gathered(tmp_path, tiny_encoder):
    task = level_task(small_set(tmp_path, tiny_encoder), 1)
    rows = task.batch(0)[:2]
    shortlisted = np.repeat(task.shortlist.to_scipy().toarray()[rows].any(axis=0), 4)
    np.testing.assert_array_equal(task.outputs_of(rows).outputs, np.flatnonzero(shortlisted))


def test_every_row_is_visited_once_an_epoch_and_held_out_ones_never(tmp_path, tiny_encoder):
    data = small_set(tmp_path, tiny_encoder)
    trained, held = np.arange(20, 120), np.arange(20)
    task = level_task(data, 1, train_rows=trained, held_out=held)
    epoch = np.concatenate([task.batch(step) for step in range(-(-len(trained) // 16))])
    np.testing.assert_array_equal(np.sort(epoch), trained)


def test_validation_is_precision_among_the_children_of_predicted_parents(tmp_path, tiny_encoder):
    data = small_set(tmp_path, tiny_encoder)
    held = np.arange(0, 120, 3)
    task = level_task(data, 1, held_out=held)
    tiny_encoder.eval()
    with torch.no_grad():
        E = tiny_encoder(data.tokens.batch(held)).numpy()
        found = task.validate(tiny_encoder)
    margins = E @ task.table.weights.T + task.table.bias
    allowed = np.repeat(task.reached.to_scipy().toarray()[held] != 0, 4, axis=1)
    best = np.where(allowed, margins, -np.inf).argmax(axis=1)
    hits = (task.level.Y.to_scipy().toarray()[held, best] > 0) & allowed.any(axis=1)
    assert found == pytest.approx(hits.mean())
