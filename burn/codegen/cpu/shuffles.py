"""Rearrangements of elements in vector registers: transposes and interleaving."""

from __future__ import annotations

from burn.codegen.cpu import math
from burn.codegen.host.emit import Function, Value, element_of, lanes_of, vector


def transposed(code: Function, rows: list[Value]) -> list[Value]:
    """Transposes as many vectors as each has lanes: exchanges the two parts of pairs of vectors, then their quarters,
    and so on."""
    lanes, rows = len(rows), list(rows)
    half = lanes // 2
    while half:
        starts = [i - half if i & half else i for i in range(lanes)]  # of the low half that comes to each lane
        low = [start + lanes * ((i & half) > 0) for i, start in enumerate(starts)]
        high = [index + half for index in low]
        for i in (i for i in range(lanes) if not i & half):
            a, b = rows[i], rows[i + half]
            rows[i], rows[i + half] = (
                code.raw(f"vector.shuffle {a}, {b} {picked} : {a.type}, {b.type}", a.type) for picked in (low, high)
            )
        half //= 2
    return rows


def interleaved(code: Function, rows: list[Value]) -> list[Value]:
    """Interleaves two to four vectors: the first elements of all, then the second ones, in as many vectors."""
    count, lanes = len(rows), lanes_of(rows[0].type)

    def pick(a: Value, b: Value, indices: list[int]) -> Value:
        return code.raw(f"vector.shuffle {a}, {b} {indices} : {a.type}, {b.type}", a.type)

    def pairs(a: Value, b: Value) -> list[Value]:
        masks = [[at + i // 2 + lanes * (i % 2) for i in range(lanes)] for at in (0, lanes // 2)]
        return [pick(a, b, mask) for mask in masks]

    if count == 2:
        return pairs(rows[0], rows[1])
    if count == 4:
        even, odd = pairs(rows[0], rows[2]), pairs(rows[1], rows[3])
        return [*pairs(even[0], odd[0]), *pairs(even[1], odd[1])]
    assert count == 3
    found: list[Value] = []
    for number in range(count):
        spots = [divmod(number * lanes + i, count) for i in range(lanes)]  # (element, vector) of each lane
        two = pick(rows[0], rows[1], [element + lanes * (row == 1) for element, row in spots])
        found.append(pick(two, rows[2], [lanes + e if row == 2 else i for i, (e, row) in enumerate(spots)]))
    return found


def lane_sums(code: Function, dtype: str, vectors: list[Value]) -> Value:
    """A vector of the sums of each vector's lanes. The vectors' number is a power of two from 2 to that of lanes."""

    def added(a: Value, b: Value, part: int, count: int) -> Value:
        """Adds neighbouring runs of `part` elements. The result has `count` elements, of both operands or of one."""
        picks = [[i // part * 2 * part + i % part + at for i in range(count)] for at in (0, part)]
        type_ = vector(count, element_of(a.type))
        low, high = (code.raw(f"vector.shuffle {a}, {b} {pick} : {a.type}, {b.type}", type_) for pick in picks)
        return math.apply(code, "add", dtype, low, high)

    lanes = lanes_of(vectors[0].type)
    part = lanes // 2
    while len(vectors) > 1:
        vectors = [added(a, b, part, lanes) for a, b in zip(vectors[::2], vectors[1::2], strict=True)]
        part //= 2
    (total,) = vectors
    while part:
        total = added(total, total, part, lanes_of(total.type) // 2)
        part //= 2
    return total
