import numpy as np

from xmcspark.sparse.csr import Csr

def pack(W: Csr, child_ptr: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]: ...
def pack_dense(W: Csr, child_ptr: np.ndarray) -> np.ndarray | None: ...

class PackedModel:
    def __init__(
        self,
        levels: list,
        width: int,
        labels: np.ndarray,
        transform: str,
        power: int,
        log: bool,
        exp_at_end: bool,
        path_weight: float = ...,
    ) -> None: ...
    def search(self, X: Csr, beam: int, k: int, threads: int) -> tuple[np.ndarray, np.ndarray]: ...
    def search_one(
        self, features: np.ndarray, values: np.ndarray, dense: np.ndarray, cols: int, beam: int, k: int
    ) -> tuple[np.ndarray, np.ndarray]: ...
    def score_pairs(self, X: Csr, positions: Csr, threads: int) -> np.ndarray: ...
