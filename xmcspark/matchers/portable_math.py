"""exp and log over arrays from additions, multiplications and divisions only: numpy's own take another
path on each CPU and differ in the last bit, and the answer must not depend on the machine. The same
steps as native/fmath.h, so both give the same bits."""

from __future__ import annotations

import numpy as np

_LN2_HIGH = 6.93147180369123816490e-01  # the two parts keep x - n ln2 exact
_LN2_LOW = 1.90821492927058770002e-10
_LN2 = 6.93147180559945286227e-01
_SQRT2 = 1.41421356237309504880
_INVERSE_FACTORIALS = (
    *(1.0 / 479001600, 1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720),
    *(1.0 / 120, 1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0),
)


def exact_exp(x: np.ndarray) -> np.ndarray:
    """e to the x, relative error below 1e-15; 0 below -708, capped at e^709 above."""
    x = np.asarray(x, np.float64)
    bounded = np.clip(x, -708.0, 709.0)
    n = np.rint(bounded * 1.4426950408889634074)
    r = (bounded - n * _LN2_HIGH) - n * _LN2_LOW
    p = np.full_like(r, 1.0 / 6227020800.0)
    for coefficient in _INVERSE_FACTORIALS:
        p *= r
        p += coefficient
    result: np.ndarray = np.ldexp(p, n.astype(np.int32))
    return np.where(x < -708.0, 0.0, result)


def exact_log(x: np.ndarray) -> np.ndarray:
    """Natural logarithm of positive, normal numbers, relative error below 1e-15 away from 1."""
    m, exponent = np.frexp(np.asarray(x, np.float64))
    m, exponent = m * 2.0, exponent - 1
    large = m > _SQRT2
    m = np.where(large, m * 0.5, m)
    exponent = exponent + large
    s = (m - 1.0) / (m + 1.0)
    s2 = s * s
    p = np.full_like(s, 1.0 / 23.0)
    for k in range(21, 0, -2):
        p *= s2
        p += 1.0 / k
    result: np.ndarray = exponent * _LN2 + 2.0 * s * p
    return result
