"""A model put together from packed units has the bytes of the model packed as a whole."""

import numpy as np
import pytest
import scipy.sparse as sp
from small_problem import even_tree, random_problem
from training_run import folder_bytes
from tree_units import units_of

from xmcspark.errors import StoreError
from xmcspark.matchers.packed_model import NAMES, ModelFiles, in_leaf_order, packed_unit
from xmcspark.matchers.train import train_matchers
from xmcspark.sparse.csr import as_csr
from xmcspark.sparse.rows import take_rows
from xmcspark.tree.units import node_starts, units_of_nodes


def rows_of_unit(model, unit, owner):
    """(nodes, children, bias, W) of a unit as the table has them, shuffled."""
    tree, starts = model.tree, node_starts(model.tree)
    nodes, children, bias, parts = [], [], [], []
    for t, (ptr, matchers) in enumerate(zip(tree.child_ptr, model.matchers, strict=True)):
        of = starts[t] + np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
        mine = np.flatnonzero(owner[of] == unit.unit)
        nodes.append(of[mine])
        children.append(tree.labels[mine] if t == tree.depth - 1 else starts[t + 1] + mine)
        bias.append(matchers.bias[mine])
        parts.append(take_rows(matchers.weights, mine).to_scipy())
    order = np.random.default_rng(0).permutation(sum(map(len, nodes)))
    W = as_csr(sp.vstack(parts).tocsr()[order])
    return (*(np.concatenate(a)[order] for a in (nodes, children, bias)), W)


@pytest.mark.parametrize("shape", [(3, 14), (9,), ()])
@pytest.mark.parametrize("threshold", [0.1, 50.0])  # with the second one no weights are left
def test_parts_in_order_make_the_folder_that_the_whole_would_save(tmp_path, shape, threshold):
    X, Y = random_problem(rows=200, labels=83)
    model = train_matchers(X, Y, even_tree(83, shape), threshold=threshold)
    units = units_of(model.tree, X, Y)
    owner = units_of_nodes(model.tree, units)
    files = ModelFiles(tmp_path / "parts", model.tree)
    for unit in in_leaf_order(model.tree, units):
        for level, part in packed_unit(model.tree, unit, *rows_of_unit(model, unit, owner)):
            arrays = [part.slot_ptr[1:], part.entry_ptr[1:], part.slots, part.entries, part.bias]
            for name, array in zip(NAMES, arrays, strict=True):
                data = array.tobytes()
                files.append(level, name, data[:16], last=len(data) <= 16)
                if len(data) > 16:
                    files.append(level, name, data[16:], last=True)
    files.finish(tmp_path / "model", model.n_features, model.scoring)
    model.searcher.save(tmp_path / "whole")
    assert folder_bytes(tmp_path / "model") == folder_bytes(tmp_path / "whole")
    assert not list((tmp_path / "parts").iterdir())


def test_a_missing_matcher_is_told():
    X, Y = random_problem(rows=200, labels=83)
    model = train_matchers(X, Y, even_tree(83, (9,)))
    units = units_of(model.tree, X, Y)
    nodes, children, bias, W = rows_of_unit(model, units[2], units_of_nodes(model.tree, units))
    fewer = take_rows(W, np.arange(1, W.shape[0]))
    with pytest.raises(StoreError, match="rows of unit 2 on level 1"):
        list(packed_unit(model.tree, units[2], nodes[1:], children[1:], bias[1:], fewer))
