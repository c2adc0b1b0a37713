"""Labels of two runs in one numbering: those that both have keep the first run's numbers, those that only the other
has come after them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xmcspark.errors import InputError
from xmcspark.sparse.csr import Csr


def common_numbers(
    pairs: Sequence[tuple[np.ndarray, np.ndarray]], n_own: int
) -> tuple[np.ndarray | None, int]:
    """(the common number of each label of the other run, how many only that has), from pairs of (number in the other
    run, number in the first or -1). None if all numbers are as they were. -1 for numbers that no label has."""
    nothing = np.empty(0, np.int32)
    other, own = (np.concatenate(parts) for parts in zip((nothing, nothing), *pairs, strict=True))
    if np.array_equal(other, own):
        return None, 0
    numbers = np.full(int(other.max(initial=-1)) + 1, -1, np.int32)
    numbers[other] = own
    new = np.sort(other[own < 0])
    numbers[new] = n_own + np.arange(len(new))
    return numbers, len(new)


def renumbered(labels: np.ndarray, numbers: np.ndarray | None, run: str) -> np.ndarray:
    """Labels of a run by their common numbers."""
    if numbers is None or not len(labels):
        return labels
    if labels.max() >= len(numbers) or (numbers[labels] < 0).any():
        raise InputError(
            f"run {run} has instances or predictions with labels that its table labels does not have: run corpus and "
            "predict again"
        )
    taken: np.ndarray = numbers[labels]
    return taken


def renumbered_rows(matrix: Csr, numbers: np.ndarray | None, run: str) -> Csr:
    """Rows of labels by their common numbers, increasing in each row."""
    if numbers is None:
        return matrix
    columns = renumbered(matrix.indices, numbers, run)
    order = np.lexsort((columns, np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))))
    return Csr(matrix.indptr, columns[order], matrix.data[order], matrix.shape)
