"""A model put together from packed units has the bytes of the model packed as a whole."""

import os
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from small_problem import even_tree, random_problem
from training_run import folder_bytes
from tree_units import units_of

from xmcspark.errors import StoreError
from xmcspark.matchers.packed_model import in_leaf_order, packed_unit, save_packed
from xmcspark.matchers.packed_parts import LevelPart, PartsFile, taken
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
    file, parts = PartsFile(tmp_path / "parts"), []
    for unit in in_leaf_order(model.tree, units):
        for level, part in packed_unit(model.tree, unit, *rows_of_unit(model, unit, owner)):
            parts.append(LevelPart.from_plain(file.add(level, part).to_plain()))
    file.close()
    save_packed(tmp_path / "model", model.tree, parts, model.n_features, model.scoring, threads=2)
    model.searcher.save(tmp_path / "whole")
    assert folder_bytes(tmp_path / "model") == folder_bytes(tmp_path / "whole")


def test_parts_that_are_moved_are_used_up_and_found_by_nobody_else(tmp_path):
    X, Y = random_problem(rows=200, labels=83)
    model = train_matchers(X, Y, even_tree(83, (9,)))
    file = PartsFile(tmp_path / "parts")
    large = np.full((1 << 20, 2), 7, np.uint32)
    levels = [replace(level, entries=large) for level in model.searcher.levels]
    parts = {(0, 0): [file.add(level, packed) for level, packed in enumerate(levels)]}
    file.close()
    mine = taken(parts)[0, 0]
    assert not (tmp_path / "parts").exists()
    with open(tmp_path / "entries", "wb") as stream:
        for part in mine:
            part.move_to("entries", stream)
    assert (tmp_path / "entries").read_bytes() == large.tobytes() * len(levels)
    assert os.stat(mine[0].file).st_blocks * 512 < large.nbytes  # of the holes nothing is stored
    assert mine[1].read("bias") == levels[1].bias.tobytes()  # what lies around them stays


def test_a_part_that_was_cut_off_is_told(tmp_path):
    X, Y = random_problem(rows=200, labels=83)
    model = train_matchers(X, Y, even_tree(83, (9,)))
    file = PartsFile(tmp_path / "parts")
    parts = [file.add(level, packed) for level, packed in enumerate(model.searcher.levels)]
    file.close()
    os.truncate(tmp_path / "parts", (tmp_path / "parts").stat().st_size - 8)
    with pytest.raises(StoreError, match=r"cut off.*run train again"):
        save_packed(tmp_path / "model", model.tree, parts, model.n_features, model.scoring)
    assert not (tmp_path / "model" / "header.json").exists()


def test_a_missing_matcher_is_told():
    X, Y = random_problem(rows=200, labels=83)
    model = train_matchers(X, Y, even_tree(83, (9,)))
    units = units_of(model.tree, X, Y)
    nodes, children, bias, W = rows_of_unit(model, units[2], units_of_nodes(model.tree, units))
    fewer = take_rows(W, np.arange(1, W.shape[0]))
    with pytest.raises(StoreError, match="rows of unit 2 on level 1"):
        list(packed_unit(model.tree, units[2], nodes[1:], children[1:], bias[1:], fewer))
