import numpy as np

def balanced_order(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    cols: int,
    labels: np.ndarray,
    child_ptr: list[np.ndarray],
    first: np.ndarray,
    root_level: int,
    stop: int,
    keep: np.ndarray,
    dense: np.ndarray,
    iterations: int,
    tolerance: float,
    seed: int,
    threads: int,
) -> tuple[np.ndarray, np.ndarray, list[tuple[float, int, int, int]]]: ...
def wide_clusters(
    indptr: np.ndarray,
    indices: np.ndarray,
    data: np.ndarray,
    cols: int,
    clusters: int,
    iterations: int,
    tolerance: float,
    seed: int,
    threads: int,
) -> tuple[np.ndarray, int]: ...
