"""The task: its loss is that of the equations over all embeddings, its gradients reach the rows of the pool and no
others, its batches and refreshes follow from seed and step."""

from dataclasses import replace

import needs_torch  # noqa: F401
import numpy as np
import pytest
import torch
from unidec_set import SMALL, first_rows, small_heads, unidec_set

from xmcspark.errors import InputError, StoreError
from xmcspark.labels.cooccurrence import counted_neighbours
from xmcspark.neural import glas
from xmcspark.neural.embed import embed
from xmcspark.neural.glas import glas_penalty, glas_targets
from xmcspark.neural.row_table import RowTable
from xmcspark.neural.unidec.losses import Pairs, PoolLoss, binary_cross_entropy
from xmcspark.neural.unidec.refresh import Refresh
from xmcspark.neural.unidec.task import UnidecTask
from xmcspark.sparse.csr import as_csr

LABELS = 24


@pytest.fixture
def make_task(tmp_path, tiny_encoder):
    data = unidec_set(tmp_path / "data", tiny_encoder)

    def make(settings=SMALL, heads=None, table=True, **more):
        heads = heads or small_heads()
        own = RowTable.create(LABELS, 12, weights=first_rows()) if table else None
        more = {"data": data, "rows": data.rows_with_labels(), "folder": tmp_path / "state"} | more
        return UnidecTask(
            name="unidec",
            settings=settings,
            encoder=tiny_encoder,
            heads=heads,
            table=own,
            steps=30,
            seed=0,
            **more,
        )

    return make


def pairs_of(pool):
    arrays = (pool.row, pool.column, pool.target, pool.one_of_row, pool.one_of_column)
    return Pairs(*(torch.from_numpy(array) for array in arrays))


def test_loss_is_that_of_both_heads_over_the_pool(make_task, tiny_encoder):
    task = make_task()
    rows = task.batch(0)
    found = task.loss(tiny_encoder, rows)
    pool = task._sampler.pool(task.data.Y, rows, 0, task._refresh[1].mined)
    E = torch.from_numpy(embed(tiny_encoder, task.data.tokens, rows))
    Z = torch.from_numpy(embed(tiny_encoder, task.data.label_tokens, pool.labels))
    W = torch.from_numpy(first_rows()[pool.labels])
    dual, classifier = task.heads.dual, task.heads.classifier
    loss = PoolLoss("decoupled-softmax", False, 0.5)
    expected = 0.5 * loss(dual(E) @ dual(Z).T, pairs_of(pool), dual.temperature)
    margins = classifier(E) @ W.T
    scores = margins / classifier.temperature + classifier.offset
    second = loss(margins, pairs_of(pool), classifier.temperature) + binary_cross_entropy(
        scores, pairs_of(pool)
    )
    torch.testing.assert_close(found, expected + 0.5 * second, atol=1e-4, rtol=1e-4)
    assert {head: sizes.average_labels for head, sizes in task.pools.items()} == {
        "dual": len(pool.labels),
        "classifier": len(pool.labels),
    }


def test_excluded_labels_are_neither_right_nor_wrong(make_task, tiny_encoder):
    """Decoupled softmax of each query over the labels that are not excluded for it; those it has stay right."""
    never = np.random.default_rng(2).random((96, LABELS)) < 0.4
    plain = make_task().data
    data = replace(plain, excluded=as_csr(never.astype(np.float32)))
    settings = replace(SMALL, heads=("dual",), dual_share=1.0)
    task = make_task(settings, heads=small_heads(classifier=False), table=False, data=data)
    rows = task.batch(0)
    found = float(task.loss(tiny_encoder, rows).detach())
    pool = task._sampler.pool(data.Y, rows, 0, task._refresh[1].mined)
    with torch.no_grad():
        E, Z = (
            task.heads.dual(torch.from_numpy(embed(tiny_encoder, tokens, which)))
            for tokens, which in ((data.tokens, rows), (data.label_tokens, pool.labels))
        )
    scores, own = (E @ Z.T / task.heads.dual.temperature).numpy(), data.Y.to_scipy().toarray()[rows] > 0
    costs = []
    for query, row in enumerate(rows):
        right = own[query, pool.labels]
        wrong = ~right & ~never[row, pool.labels]
        others = np.exp(scores[query, wrong]).sum()
        costs.append(np.mean([-np.log(np.exp(s) / (np.exp(s) + others)) for s in scores[query, right]]))
    assert found == pytest.approx(np.mean(costs), rel=1e-4)


def test_gradient_of_gathered_rows_is_the_dense_gradient(make_task, tiny_encoder):
    graph, _ = counted_neighbours(make_task().data.Y, 100)
    task = make_task(replace(SMALL, glas=0.3), heads=small_heads(dual=False), graph=graph)
    rows = task.batch(0)
    task.loss(tiny_encoder, rows).backward()
    (ids, weights, _), *_ = task.table._gatherings

    dense = torch.from_numpy(first_rows()).requires_grad_()
    pool = task._sampler.pool(task.data.Y, rows, 0, task._refresh[1].mined)
    E = torch.from_numpy(embed(tiny_encoder, task.data.tokens, rows))
    head, some = task.heads.classifier, dense[torch.from_numpy(pool.labels)]
    margins = head(E) @ some.T
    loss = PoolLoss("decoupled-softmax", False, 0.5)(margins, pairs_of(pool), head.temperature)
    loss = loss + binary_cross_entropy(margins / head.temperature + head.offset, pairs_of(pool))
    loss = loss + 0.3 * glas_penalty(some, torch.from_numpy(glas_targets(graph, pool.labels)))
    loss.backward()
    whole = np.zeros_like(dense.grad.numpy())
    whole[ids] = weights.grad.numpy()
    np.testing.assert_allclose(whole, dense.grad.numpy(), atol=1e-4)

    task.table.step(0.1)
    moved = np.flatnonzero((task.table.weights != first_rows()).any(axis=1))
    np.testing.assert_array_equal(moved, pool.labels)


def test_all_labels_compete_in_the_classifier_with_pal(make_task, tiny_encoder):
    task = make_task(replace(SMALL, reduction="pal"), heads=small_heads(dual=False))
    rows = task.batch(0)
    found = task.loss(tiny_encoder, rows)
    (ids, _, _), *_ = task.table._gatherings
    np.testing.assert_array_equal(ids, task.data.trained_labels)
    row, column = np.nonzero(task.data.Y.to_scipy()[rows].toarray())
    E = torch.from_numpy(embed(tiny_encoder, task.data.tokens, rows))
    head = task.heads.classifier
    margins = head(E) @ torch.from_numpy(first_rows()).T
    ones = torch.ones(len(row))
    pairs = Pairs(torch.from_numpy(row), torch.from_numpy(column), ones, ones.bool(), ones.bool())
    expected = PoolLoss("decoupled-softmax", False, 0.5)(margins, pairs, head.temperature)
    expected = expected + binary_cross_entropy(margins / head.temperature + head.offset, pairs)
    torch.testing.assert_close(found, expected, atol=1e-3, rtol=1e-4)


def test_the_classifier_may_have_a_larger_pool_with_all_positives_that_are_in_it(make_task, tiny_encoder):
    settings = replace(SMALL, positives=1, hard_negatives=0, pool_size=18, classifier_pool_size=23)
    task = make_task(settings)
    rows = task.batch(0)
    found = task.loss(tiny_encoder, rows)
    small = task._sampler.pool(task.data.Y, rows, 0)
    (ids, _, _), *_ = task.table._gatherings
    assert (len(small.labels), len(ids)) == (18, 23)
    assert set(small.labels) < set(ids)
    assert (task.pools["dual"].average_labels, task.pools["classifier"].average_labels) == (18, 23)
    E, Z = (
        torch.from_numpy(embed(tiny_encoder, tokens, some))
        for tokens, some in ((task.data.tokens, rows), (task.data.label_tokens, small.labels))
    )
    dual, classifier = task.heads.dual, task.heads.classifier
    loss = PoolLoss("decoupled-softmax", False, 0.5)
    first = loss(dual(E) @ dual(Z).T, pairs_of(small), dual.temperature)
    row, column = np.nonzero(task.data.Y.to_scipy()[rows].toarray()[:, ids])
    ones = torch.ones(len(row))
    pairs = Pairs(torch.from_numpy(row), torch.from_numpy(column), ones, ones.bool(), ones.bool())
    margins = classifier(E) @ torch.from_numpy(first_rows()[ids]).T
    second = loss(margins, pairs, classifier.temperature)
    second = second + binary_cross_entropy(margins / classifier.temperature + classifier.offset, pairs)
    torch.testing.assert_close(found, 0.5 * first + 0.5 * second, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize(("size", "expected"), [(1000, LABELS), (3, None)])
def test_the_classifiers_pool_has_at_most_all_labels_and_at_least_the_dual_heads(
    make_task, tiny_encoder, size, expected
):
    task = make_task(replace(SMALL, classifier_pool_size=size))
    task.loss(tiny_encoder, task.batch(0))
    (ids, _, _), *_ = task.table._gatherings
    assert len(ids) == (expected or task.pools["dual"].last)


def test_glas_compares_other_labels_in_other_steps(make_task, tiny_encoder, monkeypatch):
    """A pool of all labels is the same in every step."""
    monkeypatch.setattr(glas, "_MOST", 6)
    graph, _ = counted_neighbours(make_task().data.Y, 100)
    compared = []
    monkeypatch.setattr(
        glas, "glas_targets", lambda graph, labels: compared.append(labels) or np.eye(6, dtype="f4")
    )
    task = make_task(replace(SMALL, reduction="pal", glas=0.3), graph=graph)
    for step in (0, 1, 0):
        task.loss(tiny_encoder, task.batch(step))
    assert compared[0].tolist() == compared[2].tolist() != compared[1].tolist()
    assert len(compared[0]) == 6


def test_labels_of_instances_that_are_held_out_are_in_no_pool(make_task, tiny_encoder):
    Y = make_task().data.Y.to_scipy().toarray()
    rows = np.flatnonzero(Y[:, 0] == 0)  # label 0 is only in those that are held out
    for settings in (replace(SMALL, pool_size=20), replace(SMALL, reduction="pal")):
        task = make_task(settings, rows=rows)
        np.testing.assert_array_equal(task.labels, np.flatnonzero(Y[rows].any(axis=0)))
        task.loss(tiny_encoder, task.batch(0))
        (ids, _, _), *_ = task.table._gatherings
        assert 0 not in ids
        assert 0 not in task._refresh[1].mined


def test_one_positive_is_learned_with_pol(make_task, tiny_encoder):
    values = {}
    for reduction in ("psl", "pol"):
        task = make_task(replace(SMALL, reduction=reduction, bce=0.0), heads=small_heads(dual=False))
        values[reduction] = task.loss(tiny_encoder, task.batch(0)).item()
        assert task.pools["classifier"].average_positives >= 1
    assert values["psl"] != values["pol"]


def test_passing_texts_forward_again_changes_nothing_but_memory(make_task, make_tiny):
    encoder, gradients = make_tiny(dropout=0.2), []
    encoder.train()
    encoder.train_words(True)
    for recompute in (False, True):
        task = make_task(replace(SMALL, recompute=recompute, texts_at_once=5))
        encoder.zero_grad()
        rows = task.batch(0)
        torch.manual_seed(3)
        task.loss(encoder, rows).backward()
        gradients.append([w.grad.clone() for w in encoder.parameters() if w.grad is not None])
    for once, again in zip(*gradients, strict=True):
        torch.testing.assert_close(once, again)


@pytest.mark.parametrize("recompute", [False, True])
def test_only_heads_drop_values_of_embeddings(make_task, make_tiny, recompute):
    """The dropout of an encoder's output, which other methods have, would come on top of theirs."""
    encoder = make_tiny(dropout=0.0)
    encoder.dropout = 0.9
    encoder.train()
    task = make_task(replace(SMALL, recompute=recompute))
    batch = task.data.tokens.batch(np.arange(8))
    assert (encoder(batch) == 0).any()
    assert torch.equal(task._passed(encoder, batch), encoder.unit(batch))


def test_an_instance_that_counts_nothing_changes_nothing(make_task, tiny_encoder):
    data = make_task().data
    task = make_task(
        replace(SMALL, dual_share=1.0, hard_negatives=0, bce=0.0), small_heads(classifier=False), False
    )
    rows = task.batch(0)
    weights = np.ones(len(data), np.float32)
    weights[rows[8:]] = 0
    weighed = replace(task, data=replace(data, row_weights=weights))
    weighed.batch(0)
    found = weighed.loss(tiny_encoder, rows)
    weights[rows[8:]] = 5
    heavier = weighed.loss(tiny_encoder, rows)
    assert found.item() != pytest.approx(heavier.item())
    pool = task._sampler.pool(data.Y, rows, 0)
    E, Z = (
        torch.from_numpy(embed(tiny_encoder, tokens, some))
        for tokens, some in ((data.tokens, rows[:8]), (data.label_tokens, pool.labels))
    )
    kept = torch.from_numpy(pool.row < 8)
    pairs = Pairs(*(part[kept] for part in vars(pairs_of(pool)).values()))
    dual = task.heads.dual
    expected = PoolLoss("decoupled-softmax", False, 1.0)(dual(E) @ dual(Z).T, pairs, dual.temperature)
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_every_instance_is_trained_once_an_epoch_and_clusters_change_with_refreshes(make_task, tiny_encoder):
    task = make_task(replace(SMALL, refresh_epochs=2, mined_negatives=4))
    steps = task.steps_per_epoch
    epochs = [[task.batch(epoch * steps + at) for at in range(steps)] for epoch in range(3)]
    for batches in epochs:
        np.testing.assert_array_equal(np.sort(np.concatenate(batches)), task.rows)
    members = [{frozenset(batch.tolist()) for batch in batches} for batches in epochs]
    assert members[0] == members[1]
    assert [b.tolist() for b in epochs[0]] != [b.tolist() for b in epochs[1]]
    assert members[1] != members[2]  # another seed, another start of the clustering
    mined = task._refresh[1].mined
    assert mined.shape == (len(task.data), 4)
    Y = task.data.Y.to_scipy()
    for row, labels in enumerate(mined):
        assert Y[row, labels[labels >= 0]].sum() == 0
        assert (labels >= 0).all()


def test_an_index_mines_what_exact_search_does(make_task, tmp_path):
    pytest.importorskip("faiss")
    mined = []
    for search in ("exact", "approximate"):
        task = make_task(replace(SMALL, search=search, recall=1.0), folder=tmp_path / search)
        task.batch(0)
        mined.append(np.array(task._refresh[1].mined))
    assert np.mean(mined[0] == mined[1]) > 0.95
    assert not (tmp_path / "approximate" / "unidec-refreshing").exists()  # the index was for this alone


def test_a_resumed_task_finds_its_refresh_and_without_it_says_so(make_task, tiny_encoder):
    task = make_task()
    first = task.batch(0)
    with torch.no_grad():
        for weight in tiny_encoder.parameters():
            weight.mul_(1.5)  # training went on
    again = make_task()
    np.testing.assert_array_equal(again.batch(0), first)
    np.testing.assert_array_equal(again._refresh[1].mined, task._refresh[1].mined)
    first_process = {"folder": task.folder.parent / "process-1", "first_folder": task.folder}
    elsewhere = make_task(**first_process)  # where only the first process's folder was brought
    np.testing.assert_array_equal(elsewhere.batch(1), task.batch(1))
    other = Refresh(task.rows[::-1].copy(), None)  # what another process kept of a run that was killed
    other.save(first_process["folder"] / "unidec-refresh-0")
    np.testing.assert_array_equal(make_task(**first_process).batch(1), task.batch(1))
    with pytest.raises(StoreError, match="refresh-1 is missing"):
        make_task(**first_process).batch(task.steps_per_epoch + 1)
    with pytest.raises(StoreError, match="refresh-1 is missing"):
        make_task().batch(task.steps_per_epoch + 1)


def test_what_does_not_fit_together_is_refused(make_task):
    with pytest.raises(InputError, match="belong together"):
        make_task(table=False)
    with pytest.raises(InputError, match="no texts"):
        make_task(data=replace(make_task().data, label_tokens=None))
    with pytest.raises(InputError, match="before a batch"):
        make_task().loss(make_task().encoder, np.array([0]))
