"""Trains one linear matcher per child of every node of a label tree (paper 1, section 7).

Decides what may be trained on: everything is checked here, before anything is computed. What follows is in
trainer.py, the mathematics in native/solve.h."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from xmcspark.errors import InputError
from xmcspark.matchers.model import Matchers, TreeModel
from xmcspark.matchers.search import check_threads
from xmcspark.matchers.settings import INPUTS, TrainSettings
from xmcspark.matchers.targets import (
    by_position,
    check_relevance,
    check_targets,
    nonzero,
    pattern,
    row_totals,
)
from xmcspark.matchers.trainer import ALL_INPUTS, Report, Trainer
from xmcspark.sparse.csr import Csr, as_csr, check_width
from xmcspark.tree.label_tree import LabelTree

log = logging.getLogger(__name__)


def train_matchers(
    X: Any,
    Y: Any,
    tree: LabelTree,
    settings: TrainSettings | None = None,
    *,
    relevance: Any = None,
    extra_negatives: Any = None,
    start: TreeModel | None = None,
    row_keys: Any = None,
    row_weights: Any = None,
    row_negatives: Any = None,
    given: Sequence[Matchers] = (),
    inputs: str = ALL_INPUTS,
    threads: int = 1,
    report: Report | None = None,
    **changes: Any,
) -> TreeModel:
    """A model that ranks the tree's labels for rows like those of X.

    X: instances x features, with a dense block where rows have embeddings (`with_dense`). Y: instances x labels,
    targets in 0..1. `relevance`: weights of Y's positive pairs (used with `cost_sensitive`; default 1 each).
    `extra_negatives`: instances x labels, non-zero pairs are trained as negatives besides those that
    `settings.negatives` picks; pairs of Y stay positive, labels outside the tree are left out. `start`: a model of
    the same tree and features to start from; the answer is that of a cold start, sooner. `row_keys`: a number for
    each row (default 0, 1, ...), by which nodes with more than `max_rows` rows choose; the choice does not depend
    on the order of rows. `row_weights`: how much each row counts, above 0 (default 1 each); `row_negatives`: how
    much, beside that, as a negative example of labels that are not its targets, 0 for not at all. `given`: matchers of
    the first levels, such as X-Transformer's, taken as they are; `inputs`: what of rows with embeddings the others are
    trained on (tfidf+neural, tfidf, neural). `changes` override single settings, e.g. `threshold=0.05`. The answer does
    not depend on `threads`. Rows should have about unit length (as Tfidf makes them): long ones take many more sweeps.
    Labels without positives get matchers that
    say no; rows without labels are negatives of the root only.
    """
    settings = replace(settings or TrainSettings(), **changes)
    check_threads(threads)
    X = as_csr(X, "X", dense="keep")
    if not X.shape[0]:
        raise InputError("X has no rows: there is nothing to train on")
    Y = check_targets(Y, X.shape[0])
    if not Y.nnz:
        raise InputError("Y has no positive pair: there is nothing to learn")
    if start is not None and (start.n_features != X.shape[1] or not same_tree(start.tree, tree)):
        raise InputError(
            "the model to start from has another tree or other features: start from scratch instead"
        )
    if start is not None:
        check_width(X, start.width, "the model to start from")
    R = None
    if settings.cost_sensitive:
        R = pattern(Y) if relevance is None else check_relevance(relevance, Y)
    elif relevance is not None:
        raise InputError("relevance is given but cost_sensitive is off: switch it on, or leave relevance out")
    U = None
    if extra_negatives is not None:
        U = nonzero(as_csr(extra_negatives, "extra_negatives", rows=X.shape[0], cols=Y.shape[1]))
    R = R and by_position(R, tree)
    trainer = Trainer(
        X,
        tree,
        settings,
        _checked_keys(row_keys, X.shape[0]),
        start=start,
        totals=None if R is None else row_totals(R),
        row_weights=_checked_weights(row_weights, row_negatives, X.shape[0]),
        given=_checked_given(given, tree, X),
        inputs=_checked_inputs(inputs, X),
        threads=threads,
        report=report,
    )
    model = trainer.train(by_position(Y, tree), R, U and by_position(U, tree, outside="drop"))
    if trainer.unfinished:
        log.warning(
            "%d matchers stopped after max_sweeps=%d, before reaching tolerance=%g: normalise the rows of X, or raise "
            "max_sweeps or tolerance",
            trainer.unfinished,
            settings.max_sweeps,
            settings.tolerance,
        )
    return model


def _checked_given(given: Sequence[Matchers], tree: LabelTree, X: Csr) -> Sequence[Matchers]:
    for level, matchers in enumerate(given):
        wanted = (int(tree.child_ptr[level][-1]), X.shape[1]) if level < tree.depth else None
        if matchers.weights.shape != wanted or matchers.weights.width != X.width:
            raise InputError(
                f"the matchers given for level {level} are {matchers.weights.shape}, and {wanted} are needed: they "
                "belong to another tree or other features"
            )
    return given


def _checked_inputs(inputs: str, X: Csr) -> str:
    if inputs not in INPUTS:
        raise InputError(f"inputs is {inputs!r}: choose one of {', '.join(INPUTS)}")
    if inputs != ALL_INPUTS and X.dense is None:
        raise InputError(f"inputs is {inputs!r}, but X has no embeddings beside TF-IDF: leave inputs out")
    return inputs


def _checked_keys(row_keys: Any, rows: int) -> np.ndarray:
    if row_keys is None:
        return np.arange(rows, dtype=np.int64)
    keys = np.asarray(row_keys)
    if keys.dtype != np.int64 or keys.shape != (rows,):
        raise InputError(
            f"row_keys is {keys.dtype} of shape {keys.shape}: one int64 for each of the {rows} rows is needed"
        )
    return keys


def _checked_weights(row_weights: Any, row_negatives: Any, rows: int) -> np.ndarray | None:
    """float32 [rows, 2]: for targets, and as a negative example of others."""
    if row_weights is None and row_negatives is None:
        return None
    weights = np.ones(rows, np.float32) if row_weights is None else np.asarray(row_weights, np.float32)
    share = np.ones(rows, np.float32) if row_negatives is None else np.asarray(row_negatives, np.float32)
    if weights.shape != (rows,) or not (np.isfinite(weights).all() and (weights > 0).all()):
        raise InputError(f"row_weights must be {rows} finite numbers above 0, one for each row")
    if share.shape != (rows,) or not (np.isfinite(share).all() and (share >= 0).all()):
        raise InputError(f"row_negatives must be {rows} finite numbers not below 0, one for each row")
    return np.stack([weights, weights * share], axis=1)


def same_tree(one: LabelTree, other: LabelTree) -> bool:
    return (
        one.depth == other.depth
        and all(np.array_equal(a, b) for a, b in zip(one.child_ptr, other.child_ptr, strict=True))
        and np.array_equal(one.labels, other.labels)
    )
