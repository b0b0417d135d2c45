"""Which elements dropout keeps, in plain Python: `is_kept`, for the interpreter of kernels."""

from __future__ import annotations

from burn.dialect.dropout import GROUP, Draws
from burn.dialect.random import PARITY, ROTATIONS, ROUNDS

WORD = 0xFFFFFFFF


def is_kept(key: tuple[int, int], begin: int, column: int, rate: float) -> bool:
    """The element of burn.random_kept in a column of the row whose first call has this number."""
    draws = Draws.of(rate)
    inner = (column >> 1) & 3 if draws.bits == 16 else column & 7
    call = begin + column // GROUP * draws.calls + inner
    word = threefry(key, (call & WORD, call >> 32))[(column >> 3) & 1]
    if draws.bits == 16:
        word = word >> 16 if column & 1 else word & 0xFFFF
    return word >= draws.threshold(rate)


def threefry(key: tuple[int, int], counter: tuple[int, int]) -> tuple[int, int]:
    """The cipher of `burn.dialect.random.threefry`, of Python's integers."""
    schedule = (*key, key[0] ^ key[1] ^ PARITY)
    x0, x1 = ((x + k) & WORD for x, k in zip(counter, key, strict=True))
    for group in range(ROUNDS // 4):
        for rotation in ROTATIONS[group % 2]:
            x0 = (x0 + x1) & WORD
            x1 = x0 ^ ((x1 << rotation | x1 >> (32 - rotation)) & WORD)
        x0 = (x0 + schedule[(group + 1) % 3]) & WORD
        x1 = (x1 + schedule[(group + 2) % 3] + group + 1) & WORD
    return x0, x1
