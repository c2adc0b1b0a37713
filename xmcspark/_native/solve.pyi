import numpy as np

LOSSES: dict[str, int]

def train_levels(
    problems: list,
    *,
    loss: str,
    tolerance: float,
    max_sweeps: int,
    bias: float,
    cost_positive: float,
    cost_negative: float,
    threshold: float,
    max_weights: int,
    threads: int,
    progress: np.ndarray,
) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]]: ...
