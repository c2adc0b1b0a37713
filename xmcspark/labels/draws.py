"""Random numbers that follow from what they are for and from an id, never from where or when they are drawn: every
partition draws for itself, and all agree."""

from __future__ import annotations

import zlib

import numpy as np

from xmcspark.sparse.id_hash import bits, mixed


def streams(seed: int, purpose: str, keys: np.ndarray) -> np.ndarray:
    """uint64: a stream of random numbers for each key. Other purposes, written in words, have other streams."""
    of_purpose = mixed(mixed(np.array([seed], np.uint64)) ^ np.uint64(zlib.crc32(purpose.encode())))
    return mixed(of_purpose ^ bits(keys))


def hashed(stream: np.ndarray, numbers: np.ndarray | int) -> np.ndarray:
    """uint64: the numbers of the given places in each stream."""
    return mixed(stream ^ np.asarray(numbers).astype(np.uint64))


def uniform(stream: np.ndarray, numbers: np.ndarray | int = 0) -> np.ndarray:
    """float64 from 0 to below 1: multiples of 2^-53, so that comparing and multiplying is the same everywhere."""
    drawn: np.ndarray = (hashed(stream, numbers) >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return drawn
