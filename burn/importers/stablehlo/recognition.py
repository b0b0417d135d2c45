"""StableHLO by the bytes of a file. Enter at `recognise`."""

from __future__ import annotations

import re
from typing import Any

BYTECODE = b"ML\xefR"
START = 1 << 16
"""Bytes of a file in which its kind is searched."""

_DIALECTS = re.compile(rb"\b(?:stablehlo|chlo|vhlo|mhlo)\.\w")
_BURN = re.compile(rb'"burn\.\w')


def recognise(data: Any, name: str = "") -> str:
    """ "text", "bytecode" or "exported" for StableHLO, else "". data: the file's bytes, mapped or not; name: the file's."""
    start = bytes(data[:START])
    if start.startswith(BYTECODE):
        return "bytecode"
    if _is_exported(start, data):
        return "exported"
    if name.endswith(".stablehlo"):
        return "text"
    text = name.endswith((".mlir", ".mlirbc")) and _DIALECTS.search(start) and not _BURN.search(start)
    return "text" if text else ""


def _is_exported(start: bytes, data: Any) -> bool:
    """True for a FlatBuffer that holds bytecode: its first number is the table's offset, the table's that of its fields."""
    root = int.from_bytes(start[:4], "little")
    if not 8 <= root < len(start) - 4:
        return False
    back = int.from_bytes(start[root : root + 4], "little", signed=True)
    table = root - back
    if not 4 <= table < len(start) - 4:
        return False
    size = int.from_bytes(start[table : table + 2], "little")
    return 4 <= size <= 256 and size % 2 == 0 and data.find(BYTECODE) >= 0
