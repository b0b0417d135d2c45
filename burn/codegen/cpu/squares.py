"""Squares of elements in registers, turned on their side."""

from __future__ import annotations

from burn.codegen.host.emit import Function, Value


def transposed(code: Function, rows: list[Value]) -> list[Value]:
    """As many vectors as each has lanes, turned, by interleaving halves once for each bit of the number of lanes."""
    lanes = len(rows)
    half = lanes // 2
    low = [i // 2 + lanes * (i % 2) for i in range(lanes)]
    high = [half + place for place in low]

    def interleave(a: Value, b: Value, places: list[int]) -> Value:
        return code.raw(f"vector.shuffle {a}, {b} {places} : {a.type}, {b.type}", a.type)

    for _ in range(lanes.bit_length() - 1):
        pairs = [(rows[i], rows[i + half]) for i in range(half)]
        rows = [interleave(a, b, places) for a, b in pairs for places in (low, high)]
    return rows
