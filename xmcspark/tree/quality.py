"""How well a tree gathers like labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from xmcspark.sparse.csr import as_csr
from xmcspark.tree.label_tree import LabelTree


def mean_leaf_cosine(Z: Any, tree: LabelTree) -> float:
    """Mean over labels of the cosine between the label's vector and the centre of its leaf cluster.

    Rows of Z are label ids. The centre is the sum of the unit vectors of the leaf's labels, so the cosines of
    one leaf add up to the centre's length. A label without features counts as 0.
    """
    matrix = as_csr(Z, "Z", dense="expand").to_scipy()[tree.labels].astype(np.float64)
    length = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    unit = sp.diags(np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)) @ matrix
    ptr = tree.child_ptr[-1]
    leaves = sp.csr_matrix(
        (np.ones(tree.n_labels), np.arange(tree.n_labels), ptr), shape=(len(ptr) - 1, tree.n_labels)
    )
    centre = (leaves @ unit).tocsr()
    return float(np.sqrt(np.asarray(centre.multiply(centre).sum(axis=1))).sum() / tree.n_labels)
