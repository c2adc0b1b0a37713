"""Products of sparse matrices, and sums that come out the same in any order. The result is allocated once,
by an upper bound, and never copied (paper 1, section 5); the same bits for any thread count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from xmcspark._native import spgemm as native
from xmcspark.errors import InputError
from xmcspark.sparse.csr import Csr, as_csr

# A float64 holds every multiple of the grid up to 2^53 of them; two bits are left for the rounding trick.
_EXACT_BITS = 51
# Grids are 2^8 apart (2^-30, 2^-38, ...), so that tonight's slightly larger data rarely change last night's
# sums.
_GRID_STEP = 8


@dataclass(frozen=True)
class Cut:
    """What a limit on the entries of a row has removed."""

    rows: int = 0
    entries: int = 0


def spgemm(A: Any, B: Any, *, threads: int = 1, grid: float | None = None) -> sp.csr_matrix:
    """A · B, rows sorted. A and B: scipy sparse of any format, dense 2-d arrays, or `Csr`; dense blocks are expanded.

    Sums are formed in double and stored as float32. Entries that cancel to zero stay, as in scipy. `grid`, a
    power of two, rounds each product to a multiple of it (see `exact_grid`).
    """
    a = as_csr(A, "A", dense="expand")
    b = as_csr(B, "B", rows=a.shape[1], dense="expand")
    return multiply(a, b, threads=threads, grid=grid)[0].to_scipy()


def multiply(
    a: Csr,
    b: Csr,
    *,
    threads: int = 1,
    grid: float | None = None,
    normalise: bool = False,
    max_features: int | None = None,
) -> tuple[Csr, Cut]:
    """A · B of checked matrices; optionally only the largest entries of each row, and rows of length 1."""
    a, b = a.expanded(), b.expanded()
    (indptr, indices, data), cut = row_sums(
        a,
        (b.indptr, b.indices, b.data),
        b.shape[1],
        threads=threads,
        grid=grid,
        normalise=normalise,
        max_features=max_features,
    )
    return Csr(indptr, indices, data, (a.shape[0], b.shape[1])), cut


def row_sums(
    a: Csr,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    cols: int,
    *,
    threads: int = 1,
    grid: float | None = None,
    normalise: bool = False,
    max_features: int | None = None,
    as_double: bool = False,
) -> tuple[tuple[np.ndarray, np.ndarray, np.ndarray], Cut]:
    """(indptr, indices, data) of A · B where B = `rows` is checked and holds float32 or float64 values."""
    if threads < 1:
        raise InputError(f"threads is {threads}: at least 1 is needed")
    if max_features is not None and max_features < 1:
        raise InputError(f"max_features is {max_features}: give at least 1, or None to keep all")
    try:
        result, cut, overflow = native.product(
            a.indptr,
            a.indices,
            a.data,
            *rows,
            cols,
            shift=_shift(grid),
            normalise=normalise,
            max_features=-1 if max_features is None else max_features,
            as_double=as_double,
            threads=threads,
        )
    except MemoryError as error:
        raise MemoryError(
            f"the product of {a.nnz} by {len(rows[1])} entries does not fit in memory: "
            "multiply fewer rows at a time"
        ) from error
    if overflow:
        raise InputError("a sum is too large for float32: scale the matrices down before multiplying them")
    return result, Cut(*cut)


def exact_grid(largest_a: float, largest_b: float, terms: int) -> float:
    """The grid on which sums of up to `terms` products of such magnitudes are exact in float64, in any order.

    The three bounds are maxima over the data, so that partitions can find them in any order too.
    """
    bound = float(largest_a) * float(largest_b) * max(int(terms), 1)
    if not math.isfinite(bound):
        raise InputError(f"products of {largest_a} and {largest_b} are not finite")
    if bound == 0.0:
        return 2.0**-30
    exponent = math.frexp(bound)[1]  # bound < 2^exponent
    return 2.0 ** (_GRID_STEP * math.ceil((exponent - _EXACT_BITS - 2) / _GRID_STEP) + 2)


def normalise_rows(matrix: Any, *, threads: int = 1) -> sp.csr_matrix:
    """Each row divided by its Euclidean length; rows without entries, or of zeros, stay as they are."""
    return normalised(as_csr(matrix, dense="expand"), threads=threads).to_scipy()


def normalised(matrix: Csr, *, threads: int = 1) -> Csr:
    """`normalise_rows` for a checked matrix."""
    matrix = matrix.expanded()
    data = native.normalised(matrix.indptr, matrix.data, threads=threads)
    return Csr(matrix.indptr, matrix.indices, data, matrix.shape)


def _shift(grid: float | None) -> float:
    """Adding and subtracting this rounds to a multiple of the grid; 0 for no grid."""
    if grid is None:
        return 0.0
    if not (grid > 0.0 and math.isfinite(grid) and math.frexp(grid)[0] == 0.5):
        raise InputError(f"grid is {grid}: a power of two is needed, such as 2**-30")
    return 1.5 * 2.0**52 * grid
