"""Which outputs an instance is trained on (paper 4, eq. 7 and 8): the children of the parents it belongs to and of
those that were predicted for it. And how parents are predicted, with scores multiplied on the way down."""

from __future__ import annotations

import numpy as np

from xmcspark.matchers.model import Matchers, TreeModel
from xmcspark.matchers.predictions import Predictions, row_blocks
from xmcspark.matchers.scoring import Scoring
from xmcspark.matchers.targets import pattern, rows_of
from xmcspark.sparse.csr import Csr
from xmcspark.sparse.rows import stacked_rows, take_rows
from xmcspark.tree.label_tree import LabelTree

_SURE = 8.0  # a margin that every transform turns into about 1
_CANDIDATES = 1 << 22  # looked at together


def children_of(parents: Csr, child_ptr: np.ndarray) -> Csr:
    """Children of the parents of each row, each with the value of its parent."""
    sizes = np.diff(child_ptr)[parents.indices]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes, dtype=np.int64)])
    within = np.arange(ends[-1]) - np.repeat(ends[:-1], sizes)
    children = (np.repeat(child_ptr[parents.indices], sizes) + within).astype(np.int32)
    return Csr(
        ends[parents.indptr],
        children,
        np.repeat(parents.data, sizes),
        (parents.shape[0], int(child_ptr[-1])),
    )


def united(one: Csr, other: Csr) -> Csr:
    """1 where one of them has an entry, be it a score that is too small for a number."""
    both = pattern(one).to_scipy() + pattern(other).to_scipy()
    both.sort_indices()
    indptr, indices = both.indptr.astype(np.int64), both.indices.astype(np.int32)
    return Csr(indptr, indices, np.ones(len(indices), np.float32), one.shape)


def best_children(
    X: Csr,
    matchers: Matchers,
    child_ptr: np.ndarray,
    parents: Csr,
    k: int,
    *,
    scoring: Scoring | None = None,
    threads: int = 1,
) -> Csr:
    """P (eq. 7): the k best children of each row among those of its predicted parents. Scores are multiplied with those
    of the parents, as beam search does, so that what was unlikely above stays so. Candidates are those of some rows at
    a time: of all rows they would be many times what is kept."""
    searcher = _one_level(matchers, child_ptr, X.shape[1], scoring or Scoring()).searcher
    rows, candidates = X.shape[0], int(np.diff(child_ptr)[parents.indices].sum())
    found = []
    for start, stop in row_blocks(rows, max(1, candidates // rows), _CANDIDATES):
        block = np.arange(start, stop)
        some, given = (m if stop - start == rows else take_rows(m, block) for m in (X, parents))
        children = children_of(given, child_ptr)
        scores = searcher.score(some, pattern(children), threads=threads)
        joined = Csr(scores.indptr, scores.indices, scores.data * children.data, scores.shape)
        found.append(Predictions.from_csr(joined, k).to_csr(joined.shape[1]))
    return stacked_rows(found)


def _one_level(matchers: Matchers, child_ptr: np.ndarray, features: int, scoring: Scoring) -> TreeModel:
    """A model whose parents are all certain, so that only the children's own margins count."""
    parents, children = len(child_ptr) - 1, int(child_ptr[-1])
    tree = LabelTree((np.array([0, parents]), child_ptr), np.arange(children, dtype=np.int32))
    width = matchers.weights.width
    nothing = np.zeros(parents + 1, np.int64), np.zeros(0, np.int32), np.zeros(0, np.float32)
    dense = np.zeros((parents, width), np.float32) if width else None
    certain = Matchers(Csr(*nothing, (parents, features), dense), np.full(parents, _SURE, np.float32))
    return TreeModel(tree, (certain, matchers), features, scoring)


def candidate_pairs(parents: Csr, child_ptr: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(place in `rows`, child) of all children of the given rows' parents."""
    found = children_of(take_rows(parents, rows), child_ptr)
    return rows_of(found), found.indices
