"""The neural learner learns, keeps soft targets and row weights, and gives the same bits for the same seed."""

import sys
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from xmcspark.errors import ConfigError, InputError
from xmcspark.mach.mlp import train_mlp, visiting_order
from xmcspark.mach.repetition import MlpRepetition, Part
from xmcspark.mach.settings import MachSettings
from xmcspark.mach.targets import bucket_targets
from xmcspark.sparse.csr import Csr, as_csr
from xmcspark.sparse.rows import take_rows

ROWS, LABELS = 120, 24
PART = Part(0, 3, 5, LABELS, LABELS)
FAST = MachSettings(hidden=12, epochs=12, batch_size=20, learning_rate=0.05)


def _torch() -> None:
    pytest.importorskip("torch", reason="torch is not installed: the extra 'neural' has it")


def _problem(per_row: int = 2) -> tuple[Csr, Csr]:
    """(X, Y): a row's features are its labels."""
    rng = np.random.default_rng(0)
    labels = np.stack([rng.choice(LABELS, per_row, replace=False) for _ in range(ROWS)])
    rows = np.repeat(np.arange(ROWS), per_row)
    Y = sp.csr_matrix((np.ones(rows.size, np.float32), (rows, labels.ravel())), shape=(ROWS, LABELS))
    return as_csr(Y), as_csr(Y)


def _probabilities(trained: MlpRepetition, X: Csr) -> np.ndarray:
    return 1 / (1 + np.exp(-trained.margins(X)))


def _same(one: MlpRepetition, other: MlpRepetition) -> bool:
    names = ("embedding", "hidden_bias", "output", "bias")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize(("per_row", "softmax"), [(1, True), (2, False)])
def test_it_learns_the_buckets_with_the_loss_that_the_labels_ask_for(per_row, softmax):
    _torch()
    X, Y = _problem(per_row)
    steps = []
    trained = train_mlp(X, Y, PART, FAST, report=lambda done, of: steps.append((done, of)))
    assert trained.softmax is softmax
    right = bucket_targets(Y, PART.bucket_hash).to_scipy().toarray() > 0
    found = _probabilities(trained, X)
    assert found[right].min() > 0.5 > found[~right].max()
    if softmax:
        assert np.allclose(found.sum(axis=1), 1, atol=1e-4)
    assert steps == [(done + 1, 72) for done in range(72)]


def test_the_same_seed_gives_the_same_bits_whatever_the_order_of_rows():
    _torch()
    X, Y = _problem()
    keys = np.arange(ROWS) * 1001
    first = train_mlp(X, Y, PART, FAST, row_keys=keys)
    order = np.random.default_rng(1).permutation(ROWS)
    shuffled = train_mlp(take_rows(X, order), take_rows(Y, order), PART, FAST, row_keys=keys[order])
    assert _same(first, shuffled)
    assert not _same(first, train_mlp(X, Y, Part(0, 4, 5, LABELS, LABELS), FAST, row_keys=keys))


def test_epochs_and_repetitions_visit_rows_in_other_orders():
    keys = np.arange(50)
    orders = [visiting_order(keys, Part(r, 0, 5, 9, 9), epoch) for r in (0, 1) for epoch in (0, 1)]
    assert len({tuple(order) for order in orders}) == 4
    assert all(sorted(order) == list(range(50)) for order in orders)


def test_soft_targets_stay_soft():
    _torch()
    X, Y = _problem(1)
    soft = Csr(Y.indptr, Y.indices, np.full(Y.nnz, 0.3, np.float32), Y.shape)
    trained = train_mlp(X, soft, PART, replace(FAST, epochs=30, loss="bce"))
    right = bucket_targets(Y, PART.bucket_hash).to_scipy().toarray() > 0
    assert np.allclose(_probabilities(trained, X)[right], 0.3, atol=0.07)


def test_row_weights_and_negatives_say_how_much_a_row_counts():
    """Half of the rows say the opposite of the others: those that count more win, and rows without negatives
    contradict nobody."""
    _torch()
    rows = 60
    X = as_csr(np.ones((2 * rows, LABELS)) * 0.2)
    Y = np.zeros((2 * rows, LABELS))
    bucket_of = PART.bucket_hash.of(np.arange(LABELS))
    one = 0
    other = int(np.flatnonzero(bucket_of != bucket_of[0])[0])
    Y[:rows, one] = Y[rows:, other] = 1
    heavy = np.repeat([9.0, 1.0], rows)
    bce = replace(FAST, loss="bce")
    found = _probabilities(train_mlp(X, Y, PART, bce, row_weights=heavy), X)[0]
    assert found[bucket_of[one]] == pytest.approx(0.9, abs=0.05)
    assert found[bucket_of[other]] == pytest.approx(0.1, abs=0.05)
    silent = train_mlp(X, Y, PART, bce, row_negatives=np.repeat([1.0, 0.0], rows))
    found = _probabilities(silent, X)[0]
    assert found[bucket_of[one]] > 0.95
    assert found[bucket_of[other]] == pytest.approx(0.5, abs=0.07)


def test_rows_without_features_and_hashed_inputs_are_trained_as_any_other():
    _torch()
    X, Y = _problem()
    empty = as_csr(sp.vstack([X.to_scipy(), sp.csr_matrix((1, LABELS))]))
    more = as_csr(sp.vstack([Y.to_scipy(), Y.to_scipy()[:1]]))
    part = Part(0, 3, 5, LABELS, LABELS, hashed_features=10)
    trained = train_mlp(empty, more, part, MachSettings(hidden=4, epochs=1))
    assert trained.embedding.shape == (10, 4)
    assert np.isfinite(trained.margins(empty)).all()


def test_nothing_to_learn_is_refused():
    _torch()
    X, Y = _problem()
    with pytest.raises(InputError, match="no positive pair"):
        train_mlp(X, sp.csr_matrix(Y.shape, dtype=np.float32), PART, FAST)
    with pytest.raises(InputError, match="no rows"):
        train_mlp(take_rows(X, np.zeros(0, int)), take_rows(Y, np.zeros(0, int)), PART, FAST)


def test_training_that_diverges_is_an_error():
    _torch()
    X, Y = _problem()
    with pytest.raises(InputError, match=r"lower mach\.learning_rate"):
        train_mlp(X, Y, PART, replace(FAST, learning_rate=3e38))


def test_without_torch_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    X, Y = _problem()
    with pytest.raises(ConfigError, match=r"xmcspark\[neural\]"):
        train_mlp(X, Y, PART, FAST)
