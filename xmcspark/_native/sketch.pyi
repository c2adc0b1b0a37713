import numpy as np

from xmcspark.sparse.csr import Csr

def bucket_of(labels: np.ndarray, a: int, b: int, buckets: int) -> np.ndarray: ...
def margins(
    X: Csr,
    indptr: np.ndarray,
    buckets: np.ndarray,
    values: np.ndarray,
    bias: np.ndarray,
    threads: int = 1,
    out: np.ndarray | None = None,
) -> np.ndarray: ...
def transform(
    margins: np.ndarray, transform: str, power: int, log: bool, exp_at_end: bool, threads: int = 1
) -> None: ...

AGGREGATES: tuple[str, ...]

class ExactRecovery:
    def __init__(
        self, labels: np.ndarray, parameters: list[tuple[int, int]], buckets: int, threads: int
    ) -> None: ...
    @property
    def n_bytes(self) -> int: ...
    def recover(
        self, given: np.ndarray, form: tuple[str, int, bool, bool], aggregate: str, k: int, threads: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...

class FastRecovery:
    def __init__(
        self, labels: np.ndarray, parameters: list[tuple[int, int]], buckets: int, threads: int
    ) -> None: ...
    @property
    def n_bytes(self) -> int: ...
    def recover(
        self,
        given: np.ndarray,
        form: tuple[str, int, bool, bool],
        aggregate: str,
        k: int,
        threads: int,
        top_buckets: int,
        min_count: int,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]: ...
