"""Inline PTX in Triton's interpreter: `inline_asm_elementwise` for the instructions that burn prints.

A register is an array with a number for each thread, [.., 32]: instructions that a warp executes together see all of its threads.
Source of the semantics: PTX ISA 8.8.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from ml_dtypes import bfloat16

HALF_TYPES = {"f16": np.float16, "f16x2": np.float16, "bf16": bfloat16, "bf16x2": bfloat16}


def run(text: str, outputs: int, inputs: Sequence[np.ndarray], memory: np.ndarray | None = None) -> list[np.ndarray]:
    """Values of the operands $0 to $(outputs - 1), as uint32. inputs: the following ones. memory: the bytes of shared memory."""
    values: dict[str, np.ndarray] = {f"${outputs + i}": x for i, x in enumerate(inputs)}
    shape = inputs[0].shape
    predicates: dict[str, np.ndarray] = {}

    def read(operand: str) -> np.ndarray:
        if operand in values:
            return values[operand]
        if operand == "%tid.x":
            return np.zeros(shape, np.uint32)  # elements have no threads here
        number = int(operand[2:], 16) if operand.startswith("0f") else int(operand, 0)
        return np.full(shape, number, np.uint32)

    for line in re.sub(r"\{ (?=\.reg)", "", text.partition("//")[0]).strip("{} ").replace("; }", ";").split(";"):
        words = line.strip().lstrip("{} ")
        if not words or words.startswith(".reg"):
            continue
        where = np.ones(shape, bool)
        if words.startswith("@"):
            predicate, words = words[1:].split(" ", 1)
            where = predicates.get(predicate, where)  # those of a thread's number are true
        name, _, rest = words.partition(" ")
        operands = [o.strip() for o in re.findall(r"\s*\{[^}]*\}|[^,]+", rest)]
        kind, *_ = name.split(".")

        if kind == "mma":
            many = [[o.strip() for o in each.strip("{} ").split(",")] for each in operands]
            a, b, c = ([read(o) for o in each] for each in many[1:])
            values.update(zip(many[0], _mma(HALF_TYPES[name.split(".")[-2]], a, b, c), strict=True))
        elif kind in ("ld", "st"):
            assert memory is not None
            at, registers = operands if kind == "st" else operands[::-1]
            base, _, offset = at.strip("[]").partition("+")
            names, size = [o.strip() for o in registers.strip("{} ").split(",")], int(name[-2:]) // 8
            addresses = read(base).astype(np.int64) + int(offset or 0)
            assert (addresses % (size * len(names)) == 0).all()
            words_of = memory.view(f"u{size}")
            for i, register in enumerate(names):
                index = addresses // size + i
                if kind == "st":
                    words_of[index[where]] = read(register)[where]
                else:
                    values[register] = words_of[index].astype(np.uint32)
        elif kind == "setp":
            compare = {"lt": np.less, "eq": np.equal}[name.split(".")[1]]
            predicates[operands[0]] = compare(read(operands[1]).view(np.int32), read(operands[2]).view(np.int32))
        else:
            values[operands[0]] = OPERATIONS[kind](name, *map(read, operands[1:])).astype(np.uint32, copy=False)
    return [values.get(f"${i}", np.zeros(shape, np.uint32)) for i in range(outputs)]


def _pairs(x: np.ndarray, kind: Any) -> np.ndarray:
    """[..] -> [.., 2], the low half first."""
    return np.ascontiguousarray(x, np.uint32)[..., None].view(np.uint16).view(kind)


def _words(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).view(np.uint16).view(np.uint32)[..., 0]


def _fma(name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    kind = HALF_TYPES[name.split(".")[-1]]
    a, b, c = (_pairs(x, kind).astype(np.float64) for x in (a, b, c))
    return _words((a * b + c).astype(kind))


def _prmt(name: str, a: np.ndarray, b: np.ndarray, order: np.ndarray) -> np.ndarray:
    bytes_ = np.concatenate([np.ascontiguousarray(x)[..., None].view(np.uint8) for x in (a, b)], -1)
    picked = [bytes_[..., int(order.flat[0]) >> 4 * i & 7] for i in range(4)]
    return np.ascontiguousarray(np.stack(picked, -1)).view(np.uint32)[..., 0]


def _convert(name: str, high: np.ndarray, low: np.ndarray) -> np.ndarray:
    kind = HALF_TYPES[name.split(".")[-2]]
    return _words(np.stack([low.view(np.float32), high.view(np.float32)], -1).astype(kind))


def _lop3(name: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, table: np.ndarray) -> np.ndarray:
    result = np.zeros_like(a)
    for row in range(8):
        if int(table.flat[0]) >> row & 1:
            result |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return result


OPERATIONS: dict[str, Callable[..., np.ndarray]] = {
    "mov": lambda name, a: a,
    "shr": lambda name, a, b: a >> b,
    "xor": lambda name, a, b: a ^ b,
    "add": lambda name, a, b: (a.view(np.float32) + b.view(np.float32)).view(np.uint32),
    "sub": lambda name, a, b: (a.view(np.float32) - b.view(np.float32)).view(np.uint32),
    "lop3": _lop3,
    "prmt": _prmt,
    "fma": _fma,
    "cvt": _convert,
}


def _mma(kind: Any, a: list[np.ndarray], b: list[np.ndarray], c: list[np.ndarray]) -> list[np.ndarray]:
    """mma.m16n8k16: a warp's matrices A [16, 16], B [16, 8] and C [16, 8] from the registers of its threads."""
    group, thread = np.arange(32) // 4, np.arange(32) % 4
    lead = a[0].shape[:-1]
    A, B, C = np.zeros((*lead, 16, 16)), np.zeros((*lead, 16, 8)), np.zeros((*lead, 16, 8))
    for number, register in enumerate(a):
        for low, part in enumerate(np.moveaxis(_pairs(register, kind).astype(np.float64), -1, 0)):
            A[..., group + 8 * (number % 2), 2 * thread + low + 8 * (number // 2)] = part
    for number, register in enumerate(b):
        for low, part in enumerate(np.moveaxis(_pairs(register, kind).astype(np.float64), -1, 0)):
            B[..., 2 * thread + low + 8 * number, group] = part
    for number, register in enumerate(c):
        C[..., group + 8 * (number // 2), 2 * thread + number % 2] = register.view(np.float32)
    D = (A @ B + C).astype(np.float32)
    found = [D[..., group + 8 * (n // 2), 2 * thread + n % 2] for n in range(4)]
    return [np.ascontiguousarray(each).view(np.uint32) for each in found]
