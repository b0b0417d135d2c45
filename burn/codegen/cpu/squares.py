"""Elements in registers that change places: squares turned on their side, vectors woven into each other."""

from __future__ import annotations

from burn.codegen.host.emit import Function, Value, lanes_of


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


def woven(code: Function, rows: list[Value]) -> list[Value]:
    """The elements of two to four vectors in turn: all first ones, then all second ones, as many vectors."""
    count, lanes = len(rows), lanes_of(rows[0].type)

    def pick(a: Value, b: Value, places: list[int]) -> Value:
        return code.raw(f"vector.shuffle {a}, {b} {places} : {a.type}, {b.type}", a.type)

    def pairs(a: Value, b: Value) -> list[Value]:
        halves = [[at + i // 2 + lanes * (i % 2) for i in range(lanes)] for at in (0, lanes // 2)]
        return [pick(a, b, places) for places in halves]

    if count == 2:
        return pairs(rows[0], rows[1])
    if count == 4:
        even, odd = pairs(rows[0], rows[2]), pairs(rows[1], rows[3])
        return [*pairs(even[0], odd[0]), *pairs(even[1], odd[1])]
    assert count == 3
    found: list[Value] = []
    for number in range(count):
        spots = [divmod(number * lanes + i, count) for i in range(lanes)]  # element, of which vector
        two = pick(rows[0], rows[1], [element + lanes * (row == 1) for element, row in spots])
        found.append(pick(two, rows[2], [lanes + e if row == 2 else i for i, (e, row) in enumerate(spots)]))
    return found
