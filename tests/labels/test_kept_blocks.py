"""Label features that are kept in files come back as they were, whoever wrote them last."""

import numpy as np
import scipy.sparse as sp

from xmcspark.labels.kept_blocks import keep_block, kept_rows
from xmcspark.sparse.csr import as_csr


def test_blocks_come_back_in_order_and_a_block_written_twice_counts_once(tmp_path):
    whole = as_csr(sp.random(30, 7, 0.3, format="csr", random_state=0, dtype=np.float32))
    ids = np.flatnonzero(np.arange(60) % 2).astype(np.int32)
    for block in (2, 0, 1, 2):
        rows = slice(10 * block, 10 * block + 10)
        keep_block(tmp_path, block, ids[rows], as_csr(whole.to_scipy()[rows]))
    keep_block(tmp_path, 3, ids[:0], as_csr(whole.to_scipy()[:0]))
    (tmp_path / ".4-left-by-a-task-that-was-killed").write_bytes(b"half")
    labels, Z = kept_rows(tmp_path, 7)
    assert np.array_equal(labels, ids)
    assert (Z.to_scipy() != whole.to_scipy()).nnz == 0
    assert Z.shape == (30, 7)
