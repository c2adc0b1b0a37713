"""Label features kept in files as they are in memory, block by block, beside the table that people read: the task that
clusters all labels maps them instead of decoding Parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from xmcspark.sparse.csr import Csr
from xmcspark.sparse.mapped_arrays import mapped_arrays, write_arrays


def keep_block(folder: Path, block: int, labels: np.ndarray, Z: Csr) -> None:
    """Whoever computes a block again writes the same bytes, so the last one may win."""
    write_arrays(folder / f"{block:08d}", labels, Z.indptr, Z.indices, Z.data)


def kept_rows(folder: Path, features: int) -> tuple[np.ndarray, Csr]:
    """(label ids, increasing; their rows of Z), of all blocks."""
    files = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    blocks = [mapped_arrays(path) for path in files]
    labels = np.concatenate([np.zeros(0, np.int32), *(block[0] for block in blocks)])
    lengths = np.concatenate([np.zeros(1, np.int64), *(np.diff(block[1]) for block in blocks)])
    indices = np.concatenate([np.zeros(0, np.int32), *(block[2] for block in blocks)])
    data = np.concatenate([np.zeros(0, np.float32), *(block[3] for block in blocks)])
    return labels, Csr(np.cumsum(lengths), indices, data, (len(labels), features))
