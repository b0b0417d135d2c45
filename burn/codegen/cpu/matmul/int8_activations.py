"""Converts rows of floats to integers in int8 limbs, so that matmuls with weights of a few bits use byte instructions.

For each block of the depth the largest magnitude of a row gives a unit, a power of two, in which every number of the
block is an integer below 2^23. That has three limbs, int8, of base 256. The sum of numbers times weights is three exact
sums of bytes times bytes, combined once per block. An instruction multiplies and adds four pairs in each lane, or two
(vnni.py). So this is half the work of converting weights to floats.

The error of a number is that of the unit: 2^-23 of its block's largest number (and a hundredth of that). The error of a
sum is at most that times the sum of the weights' magnitudes. Blocks with numbers that are not finite, or too large or
too small for float intermediate results, are not written; the caller then accumulates floats.

The record of a row's block has the limbs, the highest first, each in the order of the weights' words. Then come the
initial values of the three accumulators, and as floats the sum of the row's numbers and the unit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from burn.codegen.cpu import convert as conversions
from burn.codegen.cpu.lanes import Lanes
from burn.codegen.cpu.matmul import vnni
from burn.codegen.cpu.matmul.blockwise import WORD, BlockReader, Blockwise, Parameters
from burn.codegen.cpu.scalars import ScalarEmitter
from burn.codegen.cpu.target import Target
from burn.codegen.host.emit import Int, Value, vector

LIMBS = 3
"""Limbs of an integer, in base 256."""

UNIT_BITS = 22
"""Binary digits of a unit below the largest number's highest bit: the number is below 2^23 units."""

ROOM = 0x020000
"""Added to a float's bits: a number this close to the next power of two counts as that, because its highest limb would not
fit an int8."""

SMALLEST, LARGEST = 127 - 100, 127 + 100
"""Exponents, as floats hold them, between which a block's largest number lies."""

MOST, MOST_OF_PAIRS = 1 << 31, 1 << 15
"""Bounds of int32 and int16 sums."""


@dataclass(frozen=True)
class Steps:
    """Decisions made while sizes are numbers. words: those of a block per unrolled iteration, in int16 if pairs are added.
    written: the numbers written at a time for each position in a byte."""

    words: int
    written: int

    @staticmethod
    def of(blocks: Blockwise, lanes: int, target: Target) -> Steps | None:
        """None if sums do not fit, the target has no instruction, or weights are floats."""
        words = blocks.words
        if not isinstance(words, int) or words == 0 or target.byte_run == 1 or blocks.dtype != "uint8":
            return None
        largest = 128 * ((1 << blocks.bits) - 1)  # lanes of one multiplication
        if words * blocks.each * largest >= MOST:
            return None
        size = words * WORD
        written = min(lanes, size & -size)
        if target.byte_run == vnni.VNNI:
            return Steps(1, written)
        if lanes * WORD != vnni.FEW_BITS:
            return None  # without VNNI longer vectors are as fast in floats, to which one instruction converts (blockwise.py)
        most = (MOST_OF_PAIRS - 1) // (largest * blocks.each // 2)
        count = next((n for n in range(most, 0, -1) if words % n == 0), None)
        return None if count is None else Steps(count, written)


@dataclass(frozen=True, eq=False)
class Int8Activations:
    """The lhs of a matmul with `blocks`, whose rows have type `dtype` and contiguous numbers. `run` is the target's
    (vnni.py)."""

    blocks: Blockwise
    dtype: str
    emitter: ScalarEmitter
    lanes: int
    steps: Steps
    run: int

    @property
    def _length(self) -> Int:
        """Numbers of a block."""
        return self.emitter.code.mul(self.emitter.dim(self.blocks.words), self.blocks.each)

    @property
    def _parts(self) -> int:
        """Numbers per byte."""
        return 8 // self.blocks.bits

    @property
    def size(self) -> Int:
        """Bytes of a record."""
        code = self.emitter.code
        return code.add(code.mul(self._length, LIMBS), 4 * (LIMBS + 2))

    # ---- writing ---------------------------------------------------------------------------------------------------------------
    def write(self, row: Value, memory: Value) -> Value:
        """Writes the records of a row's blocks; true if all could be written."""
        code, emitter = self.emitter.code, self.emitter
        every = code.const(True, "i1")
        with code.for_(0, emitter.dim(self.blocks.loops[0].extent), 1, [every]) as loop, emitter.scope():
            numbers = code.gep(row, code.mul(loop.iv, self._length), conversions.element_type(self.dtype))
            record = code.gep(memory, code.mul(loop.iv, self.size), "i8")
            loop.yield_(code.op("arith.andi", loop.carried[0], self._write_block(numbers, record)))
        return loop.results[0]

    def _write_block(self, numbers: Value, record: Value) -> Value:
        code, length = self.emitter.code, self._length
        lanes = self.steps.written
        chunks = code.udiv(length, lanes * self._parts)
        integers = vector(lanes, "i32")
        with code.for_(0, chunks, 1, [code.const(0, integers)]) as loop, self.emitter.scope():
            largest = loop.carried[0]
            for value in self._chunk(numbers, loop.iv, lanes):
                largest = code.op("arith.maxsi", largest, (value.as_int() & 0x7FFFFFFF).value)
            loop.yield_(largest)
        largest = Lanes(code, self._reduced("maxsi", loop.results[0]))  # magnitudes of floats, as integers
        exponent = (largest + ROOM) & 0x7F800000
        into_units = ((127 + 127 + UNIT_BITS) << 23) - exponent
        factor_ = Lanes(code, code.splat(into_units.as_float().value, lanes))
        with code.for_(0, chunks, 1, [code.const(0, integers)] * LIMBS) as loop, self.emitter.scope():
            sums = [Lanes(code, v) for v in loop.carried]
            for part, value in enumerate(self._chunk(numbers, loop.iv, lanes)):
                at = code.add(code.mul(loop.iv, lanes), code.mul(code.udiv(length, self._parts), part))
                whole = (value * factor_).op("math.roundeven").to_int("i32")
                for limb in reversed(range(LIMBS)):
                    higher = (whole + 128) >> 8
                    sums[limb] = sums[limb] + (whole - (higher << 8))
                    code.store(whole.resize("i8").value, record, code.add(at, code.mul(length, limb)))
                    whole = higher
            loop.yield_(*(s.value for s in sums))
        ends = code.gep(record, code.mul(length, LIMBS), "i8")
        sums = [Lanes(code, self._reduced("add", v)) for v in loop.results]
        for limb, total in enumerate(sums):
            code.store((total * -(1 << self.blocks.bits - 1)).value, ends, limb)
        unit = (exponent - (UNIT_BITS << 23)).as_float()
        code.store(self._joined(sums).value, ends, LIMBS)
        code.store(unit.value, ends, LIMBS + 1)
        is_held = largest.below(LARGEST << 23) & ~largest.below(SMALLEST << 23)
        return (largest.equals(0) | is_held).value

    def _chunk(self, numbers: Value, chunk: Int, lanes: int) -> list[Lanes]:
        """The floats of `lanes` bytes, by their position in a byte."""
        code, each = self.emitter.code, self._parts
        element = conversions.element_type(self.dtype)
        loaded = code.load(numbers, code.mul(chunk, lanes * each), vector(lanes * each, element))
        loaded = conversions.convert(code, loaded, self.dtype, "float32")
        if each == 1:
            return [Lanes(code, loaded)]
        found: list[Lanes] = []
        for part in range(each):
            indices = list(range(part, lanes * each, each))
            types = f"{loaded.type}, {loaded.type}"
            found.append(
                Lanes(code, code.pure(f"vector.shuffle {loaded}, {loaded} {indices} : {types}", vector(lanes, "f32")))
            )
        return found

    def _reduced(self, kind: str, value: Value) -> Value:
        return self.emitter.code.raw(f"vector.reduction <{kind}>, {value} : {value.type} into i32", "i32")

    # ---- reading ---------------------------------------------------------------------------------------------------------------
    def summed(
        self, records: Sequence[Value], reader: BlockReader, block: Int, columns: range
    ) -> list[Sequence[Value]]:
        """A block's accumulators by row, then by limb and vector of columns."""
        each = LIMBS * len(columns)
        sums = self._summed(records, reader, block, columns)
        return [sums[first : first + each] for first in range(0, len(sums), each)]

    def _summed(self, records: Sequence[Value], reader: BlockReader, block: Int, columns: range) -> list[Value]:
        code, words = self.emitter.code, self.emitter.dim(self.blocks.words)
        starts = [start for record in records for start in self._starts(record, len(columns))]
        with code.for_(0, words, self.steps.words, starts) as loop, self.emitter.scope():

            def added(word: Int, sums: Sequence[Value]) -> list[Value]:
                return self._added(records, word, reader.word(block, word, columns), sums)

            if self.run == vnni.VNNI:
                loop.yield_(*added(loop.iv, loop.carried))
                return loop.results
            pairs = vector(2 * self.lanes, "i16")
            with (
                code.for_(0, self.steps.words, 1, [code.const(0, pairs)] * len(loop.carried)) as count,
                self.emitter.scope(),
            ):
                count.yield_(*added(code.add(loop.iv, count.iv), count.carried))
            ones = code.const(1, pairs)
            sums = zip(loop.carried, count.results, strict=True)
            loop.yield_(*(vnni.multiplied(code, total, pair, ones, vnni.PAIRS) for total, pair in sums))
        return loop.results

    def _starts(self, record: Value, vectors: int) -> list[Value]:
        """Initial values of the accumulators, which correct for weights that are read without their zero point."""
        code, ends = self.emitter.code, self._ends(record)
        found: list[Value] = []
        for limb in range(LIMBS):
            found += [code.splat(code.load(ends, limb, "i32"), self.lanes)] * vectors
        return found

    def _added(self, records: Sequence[Value], word: Int, held: Sequence[Value], sums: Sequence[Value]) -> list[Value]:
        """The accumulators after a word of each column."""
        code, bits, length = self.emitter.code, self.blocks.bits, self._length
        sums = list(sums)
        half = sum(1 << (bits - 1) + at for at in range(0, 32, bits))
        mask = sum(((1 << bits) - 1) << at for at in range(0, 32, 8))
        bytes_ = vector(self.lanes * WORD, "i8")
        for part in range(self._parts):
            at = code.add(code.mul(code.udiv(length, self._parts), part), code.mul(word, WORD))
            numbers = [
                code.pure(f"vector.bitcast {w.value} : {w.type} to {bytes_}", bytes_)
                for w in ((Lanes(code, w) ^ half).shift_right_logical(bits * part) & mask for w in held)
            ]
            for r, record in enumerate(records):
                for limb in range(LIMBS):
                    address = code.gep(record, code.add(at, code.mul(length, limb)), "i8")
                    wide = code.splat(code.load(address, 0, "i32"), self.lanes)
                    wide = code.pure(f"vector.bitcast {wide} : {wide.type} to {bytes_}", bytes_)
                    for c, number in enumerate(numbers):
                        index = (r * LIMBS + limb) * len(held) + c
                        sums[index] = self._multiplied(sums[index], number, wide)
        return sums

    def _multiplied(self, total: Value, numbers: Value, limbs: Value) -> Value:
        code = self.emitter.code
        if self.run == vnni.VNNI:
            return vnni.multiplied(code, total, numbers, limbs, self.run)
        return code.op("arith.addi", total, vnni.of_few_bits(code, numbers, limbs))

    def finished(
        self, record: Value, parameters: Parameters, sums: Sequence[Value], total: Value, column: int
    ) -> Value:
        """The total of a vector of columns with a block's sums, in floats: (sum - zero * x's sum) * unit * scale. `sums` are
        those of its limbs."""
        code, ends = self.emitter.code, self._ends(record)
        x, unit = (Lanes(code, code.splat(code.load(ends, LIMBS + i, "f32"), self.lanes)) for i in range(2))
        joined = self._joined([Lanes(code, value) for value in sums])
        if parameters.zeros is not None:
            joined = Lanes(code, parameters.zeros[column]).mad(-x, joined)
        return (joined * unit).mad(Lanes(code, parameters.scales[column]), Lanes(code, total)).value

    def _joined(self, limbs: Sequence[Lanes]) -> Lanes:
        """The number with these limbs, or sums of limbs."""
        highest, *rest = (limb.to_float("f32") for limb in limbs)
        for limb in rest:
            highest = highest.mad(256.0, limb)
        return highest

    def _ends(self, record: Value) -> Value:
        code = self.emitter.code
        return code.gep(record, code.mul(self._length, LIMBS), "i8")
