"""Prints attention kernels of bfloat16: both matmuls multiply pairs of elements (matmul/bf16_pairs.py), with float32 sums.

A pair fills a lane of four bytes. Queries and keys have pairs along their depth, so that keys are transposed as 32-bit words.
Values have pairs of neighbouring keys in each column. Softmax weights are rounded to bfloat16, their sums are not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu.attention_printer import AttentionPrinter, is_contiguous
from burn.codegen.cpu.elementary.exponential import exp_for_bfloat16
from burn.codegen.cpu.lanes import Lanes
from burn.codegen.cpu.matmul import bf16_pairs
from burn.codegen.cpu.shuffles import interleaved
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import Int, Value, vector
from burn.dialect.dims import LoopVar, exact_div
from burn.kernels.body import AttentionKernel, Convert, Scalar

if TYPE_CHECKING:
    from burn.codegen.cpu.attention import Schedule

PAIR, HALF, ELEMENT = bf16_pairs.PAIR, "bfloat16", "bf16"


class PairsPrinter(AttentionPrinter):
    RUN: ClassVar[int] = PAIR

    def __init__(self, kernel: AttentionKernel, schedule: Schedule, target: Target, sites: list[str]) -> None:
        narrow = replace(kernel, query=_half(kernel.query), keys=_half(kernel.keys), values=_half(kernel.values))
        super().__init__(narrow, schedule, target, sites)

    def query_may_stay(self) -> bool:
        """True if pairs along the depth are contiguous, and none is beyond its end."""
        depth = self.kernel.depth
        return is_contiguous(self.kernel.query, HALF, depth) and exact_div(depth.extent, PAIR) is not None

    def values_may_stay(self) -> bool:
        return False

    # ---- operands ------------------------------------------------------------------------------------------------------
    def key_vectors(self, rows: list[Value], index: Int) -> list[Value]:
        code, lanes, first = self.code, self.lanes * PAIR, self.code.mul(index, PAIR)
        mask = None
        if not (isinstance(self.depth, int) and self.depth % lanes == 0):
            left = code.splat(code.value(code.sub(self.depth, first)), lanes)
            mask = code.cmp("slt", code.lane_ids(lanes), left)
        loaded = [code.load(row, first, vector(lanes, ELEMENT), mask) for row in rows]
        return [code.pure(f"vector.bitcast {x} : {x.type} to {self.vector}", self.vector) for x in loaded]

    def stage_keys(self, index: Int, target: Value, key: Int) -> None:
        kernel, first = self.kernel, self.code.mul(index, PAIR)
        self.stage_pairs(kernel.keys, target, key, lambda i: (kernel.depth, self.code.add(first, i), self.depth))

    def stage_values(self, start: Int, length: Int) -> None:
        code, kernel = self.code, self.kernel
        staged, stop = self.value_rows(start)[0], code.add(start, length)
        with code.for_(0, self.runs(length)) as pair, self.emitter.scope():
            first = code.add(start, code.mul(pair.iv, PAIR))
            target = code.gep(staged, code.mul(pair.iv, self.wide), self.element)

            def stage(column: Int) -> None:
                self.stage_pairs(kernel.values, target, column, lambda i: (kernel.key, code.add(first, i), stop))

            self.vectors_of(kernel.column, 0, self.columns, stage)

    def stage_pairs(
        self, operand: Scalar, target: Value, index: Int, element: Callable[[int], tuple[LoopVar, Int, Int]]
    ) -> None:
        """Stores lanes of pairs from lane `index` on: zeros in masked lanes, and for a second element that does not exist.
        element: the loop along which a pair's elements are neighbours, the index of each, and the loop's end."""
        code, emitter = self.code, self.emitter
        found: list[Value] = []
        for i in range(PAIR):
            loop, at, stop = element(i)
            with emitter.scope():
                emitter.bindings[loop] = at if i == 0 else code.min(at, code.sub(stop, 1))
                value = emitter.wide(operand)
            zero = code.const(0, value.type)
            if emitter.mask is not None:
                value = code.select(emitter.mask, value, zero)
            found.append(value if i == 0 else code.select(code.cmp("slt", at, stop), value, zero))
        for number, part in enumerate(interleaved(code, found)):
            code.store(part, target, code.add(code.mul(index, PAIR), number * self.lanes))

    def value_rows(self, start: Int) -> tuple[Value, Int]:
        return self.prepared("values", self.code.udiv(start, PAIR), self.wide), self.wide

    # ---- a tile --------------------------------------------------------------------------------------------------------
    def multiplied(self, lefts: list[Value], columns: list[Value], sums: list[Value]) -> list[Value]:
        code, pairs = self.code, vector(self.lanes * PAIR, ELEMENT)
        rights = [code.pure(f"vector.bitcast {x} : {x.type} to {pairs}", pairs) for x in columns]
        return [
            bf16_pairs.multiplied(code, sums[r * len(rights) + v], code.splat(left, self.lanes), right)
            for r, left in enumerate(lefts)
            for v, right in enumerate(rights)
        ]

    def weight(self, score: Value, top: Value) -> Value:
        return exp_for_bfloat16(Lanes(self.code, self.apply("sub", score, top))).value

    def store_weight(self, weight: Value, scores: Value, key: Int) -> None:
        """A vector of weights is stored over scores that were read before."""
        self.code.store(conversions.convert(self.code, weight, "float32", HALF), scores, key)


def _half(operand: Scalar) -> Scalar:
    """The bfloat16 operand behind its conversion."""
    assert isinstance(operand, Convert)
    return operand.arg
