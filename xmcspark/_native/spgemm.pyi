import numpy as np

def product(
    a_indptr: np.ndarray,
    a_indices: np.ndarray,
    a_data: np.ndarray,
    b_indptr: np.ndarray,
    b_indices: np.ndarray,
    b_data: np.ndarray,
    cols: int,
    *,
    shift: float = 0.0,
    normalise: bool = False,
    max_features: int = -1,
    as_double: bool = False,
    threads: int = 1,
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], tuple[int, int], bool]: ...
def normalised(indptr: np.ndarray, data: np.ndarray, *, threads: int = 1) -> np.ndarray: ...
