from collections.abc import Sequence

import numpy as np

def first_bad_row(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, cols: int
) -> tuple[int, str] | None: ...
def largest_magnitude(data: np.ndarray) -> float: ...
def transpose(
    indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, cols: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
def gather_rows(
    stores: Sequence[tuple[np.ndarray, np.ndarray, np.ndarray]], which: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
