"""Runs fused programs with the interpreter of kernels: a second implementation to compare a back end with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from burn.codegen.cpu.passes import PIPELINE
from burn.compiler import backend_for, environment, executable
from burn.dialect.constants import constant_array
from burn.dialect.control import Group
from burn.dialect.dims import Symbol, atoms, evaluate
from burn.dialect.mlir import context, ir
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype, type_of
from burn.kernels import interpret
from burn.kernels.body import Kernel
from burn.kernels.builders import kernels
from burn.kernels.builders.builder import shared_buffers
from burn.kernels.liveness import Liveness
from burn.kernels.preferences import Preferences
from burn.options import Options
from burn.passes import pipeline

Arrays = Sequence[np.ndarray]


class Unsupported(Exception):
    """The program holds something besides kernels."""


Launch = Callable[[Kernel, Sequence[np.ndarray | None], Mapping[str, int]], None]
"""Runs a kernel on flat arrays, as `interpret.run` does."""


def interpreted(
    program: Program,
    arrays: Arrays,
    launch: Launch = interpret.run,
    preferences: Preferences | None = None,
    *,
    in_place: bool = False,
) -> list[np.ndarray]:
    """The results of a fused program. in_place: an output takes over the memory of the input that `donate` gave it."""
    with context():
        return _Run(program, arrays, launch, preferences or backend_for().preferences, in_place).outputs()


class _Run:
    def __init__(
        self, program: Program, arrays: Arrays, launch: Launch, preferences: Preferences, in_place: bool
    ) -> None:
        self.program, self.launch, self.preferences = program, launch, preferences
        direct = Liveness(program.block).written_directly(program.outputs) if in_place else {}
        donated = {root: program.donated[number] for root, number in direct.items() if number in program.donated}
        self.donated = {root: program.inputs[number] for root, number in donated.items()}
        self.memory: dict[ir.Value, np.ndarray] = {}
        self.sizes: dict[str, int] = {}
        for value, array in zip(program.inputs, arrays, strict=True):
            self.memory[value] = np.array(array).ravel()
            for dim, size in zip(type_of(value).shape, array.shape, strict=True):
                if not isinstance(dim, int) and dim.is_symbol:
                    (atom,) = atoms(dim)
                    assert isinstance(atom, Symbol)
                    self.sizes[atom.name] = size

    def outputs(self) -> list[np.ndarray]:
        for operation in list(self.program.block.operations)[:-1]:
            self.op(operation.opview)
        return [self.shaped(v) for v in self.program.outputs]

    def shaped(self, value: ir.Value) -> np.ndarray:
        return self.memory[value].reshape([evaluate(d, self.sizes) for d in type_of(value).shape])

    def op(self, op: Op) -> None:
        results = list(op.operation.results)
        if isinstance(op, Group):
            self.group(op)
            return
        match op.OP_NAME:
            case "weight" | "constant":
                self.memory[results[0]] = np.asarray(constant_array(results[0], self.program.weights)).ravel()
            case "reshape":
                self.memory[results[0]] = self.memory[op.x]
            case "read_dim":
                self.sizes[op.symbol] = int(self.memory[op.x][op.position])
            case name:
                raise Unsupported(name)

    def group(self, group: Group) -> None:
        results = [self.result(r) for r in group.operation.results]
        memory = {"in": [self.memory[v] for v in group.operation.operands], "out": results}
        calls = kernels(group, self.preferences)
        memory["shared"] = [
            np.zeros(evaluate(b.elements, self.sizes), numpy_dtype(b.dtype)) for b in shared_buffers(calls)
        ]
        for call in calls:
            buffers = [None if b is None else memory[b[0]][b[1]] for b in call.bindings]
            self.launch(call.kernel, buffers, self.sizes)
        self.memory.update(zip(group.operation.results, results, strict=True))

    def result(self, value: ir.Value) -> np.ndarray:
        given_up = self.donated.get(value)
        type_ = type_of(value)
        return self.empty(type_) if given_up is None else self.memory[given_up].view(numpy_dtype(type_.dtype))

    def empty(self, type_: TensorType) -> np.ndarray:
        return np.zeros(evaluate(type_.elements, self.sizes), numpy_dtype(type_.dtype))


ROUNDING = {"float64": 2.0**-48, "float32": 2.0**-19, "float16": 2.0**-8, "bfloat16": 2.0**-5}
"""Tolerances for sums in another order, relative to the largest element."""


def agree(got: Arrays, want: Arrays) -> None:
    """Shapes, types and elements are the same: integers exactly, floats but for rounding."""
    assert len(got) == len(want)
    for number, (a, b) in enumerate(zip(got, want, strict=True)):
        assert a.shape == b.shape and a.dtype == b.dtype, f"result {number}: {a.dtype}{a.shape} {b.dtype}{b.shape}"
        bound = ROUNDING.get(a.dtype.name)
        if bound is None:
            np.testing.assert_array_equal(a, b, err_msg=f"result {number}")
            continue
        x, y = a.astype("f8"), b.astype("f8")
        finite = np.abs(y[np.isfinite(y)]).max(initial=1.0)
        np.testing.assert_allclose(x, y, rtol=bound, atol=bound * min(finite, 1e30), err_msg=f"result {number}")


def check(program: Program, arrays: Arrays, passes: str = PIPELINE.text) -> None:
    """Fuses a program, and compares the compiled code with the interpreted kernels."""
    pipeline.run(pipeline.parse(passes), program, environment())
    want = interpreted(program, arrays)
    got = executable(program, Options(passes=""))(*arrays)
    agree(list(got) if isinstance(got, tuple) else [got], want)


def sizes_of(program: Program) -> list[str]:
    names: Mapping[str, None] = {
        a.name: None for t in program.input_types for d in t.shape for a in atoms(d) if isinstance(a, Symbol)
    }
    return sorted(names)
