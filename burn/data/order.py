"""Random orders from a seed: the same on every machine, with every version of numpy, in every process.

Random words are a hash of the seed and their index (splitmix64). So a worker process computes an order itself, from any
position.
"""

from __future__ import annotations

import numpy as np

_GOLDEN = 0x9E3779B97F4A7C15
_FACTORS = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
_MASK = (1 << 64) - 1


def words(count: int, *key: int) -> np.ndarray:
    """`count` random 64-bit words. The key is any number of integers; the words depend on all of them."""
    state = 0
    for part in key:
        state = int(_mixed(np.array([(state + part + _GOLDEN) & _MASK], np.uint64))[0])
    positions = np.arange(1, count + 1, dtype=np.uint64)
    return _mixed(positions * np.uint64(_GOLDEN) + np.uint64(state))


def _mixed(x: np.ndarray) -> np.ndarray:
    for shift, factor in _FACTORS:
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def uniform(count: int, *key: int) -> np.ndarray:
    """Numbers in [0, 1)."""
    return (words(count, *key) >> np.uint64(11)) * 2.0**-53


def permutation(count: int, *key: int) -> np.ndarray:
    """0 ... count - 1 in a random order."""
    return np.argsort(words(count, *key), kind="stable")


def draws(count: int, size: int, weights: np.ndarray | None, replace: bool, *key: int) -> np.ndarray:
    """`count` of 0 ... size - 1, in proportion to their weights where these are given."""
    if not replace:
        if weights is None:
            return permutation(size, *key)[:count]
        with np.errstate(divide="ignore"):  # the largest u^(1/w) are a weighted choice (Efraimidis and Spirakis)
            ranks = np.log1p(-uniform(size, *key)) / weights
        return np.argsort(-ranks, kind="stable")[:count]
    if weights is None:
        return (uniform(count, *key) * size).astype(np.int64)
    ends = np.cumsum(weights)
    return np.searchsorted(ends, uniform(count, *key) * ends[-1], side="right")


def generator(*key: int) -> np.random.Generator:
    """numpy's generator of a key, for functions that draw as they like."""
    return np.random.Generator(np.random.Philox(key=words(2, *key)))
