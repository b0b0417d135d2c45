"""A program as StableHLO text for given sizes: `text_of`, after the passes of `PASSES`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module

from burn.codegen.stablehlo import emitter
from burn.codegen.stablehlo.builder import Builder, Value
from burn.codegen.stablehlo.elements import carrier, has_carrier
from burn.codegen.stablehlo.emitter import Disagreement, Emission
from burn.codegen.stablehlo.ops.casts import cast
from burn.codegen.stablehlo.ops.shape import carried
from burn.codegen.stablehlo.text import Tensor, TextBuilder, tensor_type
from burn.dialect.dims import symbols
from burn.dialect.mlir import context
from burn.dialect.op import Op
from burn.dialect.program import Program
from burn.dialect.types import DTYPES, TensorType
from burn.errors import CompileError, Problem
from burn.runtime.abi import MESSAGES

FAMILIES = ("pointwise", "shape", "reduction", "contraction", "indexing", "library", "control", "debug", "custom")
"""The modules of emitters, in `ops/`."""

PASSES = "lower_complex,simplify{absorb=false},decompose{keep=stop_gradient},simplify{absorb=false}"
"""The passes before a program is written. They expand composites and evaluate sizes that constants give."""

SUMMARY = "the program cannot be written as StableHLO"


@dataclass(frozen=True)
class Port:
    """An argument or a result of the module's `main`, with the type that it has in burn."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def type(self) -> str:
        return tensor_type(self.shape, self.dtype)


@dataclass(frozen=True)
class Signature:
    """The arguments and results of `main`, in order.

    inputs: those of the program. With `random_state` the last is the random state, uint64[2]: a seed, and a number that is new at
    each run. weights: constants that are arguments behind the inputs; none if they are in the text."""

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    weights: tuple[Port, ...] = ()
    random_state: bool = False


def load_emitters() -> None:
    """Fills the table."""
    for family in FAMILIES:
        import_module(f"burn.codegen.stablehlo.ops.{family}")


def check(program: Program, calls: bool = False) -> None:
    """Raises CompileError that lists everything that StableHLO does not have. calls: the builder calls custom ops."""
    load_emitters()
    found = []
    if program.input_containers or program.output_containers:
        found.append(Problem("sequences and optionals as inputs or outputs are not supported"))
    for kind, names, types in (
        ("input", program.input_names, program.input_types),
        ("output", program.output_names, program.output_types),
    ):
        found += [
            Problem(f"{kind} '{name}': StableHLO has no element type {type_.dtype}")
            for name, type_ in zip(names, types, strict=False)
            if not has_carrier(type_.dtype)
        ]
    found += emitter.problems(program.block, calls)
    if found:
        raise CompileError(SUMMARY, list(dict.fromkeys(found)))


def text_of(program: Program, sizes: Mapping[str, int], weights_inside: bool, name: str) -> tuple[str, Signature]:
    """See `burn.exporters.stablehlo.stablehlo_of`; for a program that has been through `PASSES`."""
    check(program)
    unknown = sorted({n for type_ in program.input_types for d in type_.shape for n in symbols(d)} - sizes.keys())
    if unknown:
        raise CompileError(SUMMARY, [Problem(f"the size {name} is not given") for name in unknown])
    with context():
        return _Module(program, sizes, weights_inside, name).write()


class _Module:
    def __init__(self, program: Program, sizes: Mapping[str, int], weights_inside: bool, name: str) -> None:
        self.program, self.inside, self.name = program, weights_inside, name
        self.b = TextBuilder(sizes)
        self.weights: dict[str, tuple[Tensor, Port]] = {}

    def write(self) -> tuple[str, Signature]:
        program, b = self.program, self.b
        count = len(program.inputs) - program.random_state
        names = [*program.input_names[:count], *["random_state"] * program.random_state]
        inputs = [self._port(name, type_) for name, type_ in zip(names, program.input_types, strict=True)]
        arguments = [Tensor(f"%arg{i}", port.shape, port.dtype) for i, port in enumerate(inputs)]
        emission = Emission(b, self._weight)
        for value, argument, type_ in zip(program.inputs, arguments, program.input_types, strict=True):
            emission.values[value] = entering(b, argument, type_.dtype)
        try:
            emission.block([operation.opview for operation in program.block.operations])
        except Disagreement as error:
            text = MESSAGES[error.status].format(value=error.value, site=error.site)
            raise CompileError(
                "the program does not fit these sizes", [Problem(text, node="" if "{site}" in text else error.site)]
            ) from None
        outputs = [self._port(n, t) for n, t in zip(program.output_names, program.output_types, strict=True)]
        results = [
            leaving(b, emission.values[value], port.dtype) for value, port in zip(program.outputs, outputs, strict=True)
        ]
        b._depth = 2
        b.return_(results, "func.return")
        weights = [port for _, port in self.weights.values()]
        listed = [f"{a.name}: {a.type}" for a in (*arguments, *(t for t, _ in self.weights.values()))]
        head = f"module @{self.name} {{\n  func.func public @main({', '.join(listed)}) -> "
        text = head + f"({', '.join(port.type for port in outputs)}) {{\n" + "\n".join(b.lines) + "\n  }\n}\n"
        return text, Signature(tuple(inputs), tuple(outputs), tuple(weights), program.random_state)

    def _port(self, name: str, type_: TensorType) -> Port:
        return Port(name, type_.dtype, tuple(map(self.b.size, type_.shape)))

    def _weight(self, op: Op) -> Value:
        """The constant of a `burn.weight`: written where it is first used, or an argument."""
        array = self.program.weights.get(op.key)
        if self.inside:
            return self.b.dense(carried(array, op.dtype), carrier(op.dtype))
        if op.key not in self.weights:
            port = Port(op.key, op.dtype, tuple(array.shape))
            self.weights[op.key] = Tensor(f"%weight{len(self.weights)}", port.shape, port.dtype), port
        return entering(self.b, self.weights[op.key][0], op.dtype)


def entering(b: Builder, x: Value, dtype: str) -> Value:
    """An argument of burn's element type, as its carrier."""
    if carrier(dtype) == dtype:
        return x
    if DTYPES[dtype].kind != "small":
        return b.convert(x, carrier(dtype))
    if DTYPES[dtype].bits == 8:
        return b.bitcast(x, "uint8")
    return cast(b, b.convert(x, "float32"), "float32", dtype)


def leaving(b: Builder, x: Value, dtype: str) -> Value:
    """A carrier, as a result of burn's element type."""
    if carrier(dtype) == dtype:
        return x
    if DTYPES[dtype].kind != "small":
        return b.convert(x, dtype)
    if DTYPES[dtype].bits == 8:
        return b.bitcast(x, dtype)
    return b.convert(cast(b, x, dtype, "float32"), dtype)
