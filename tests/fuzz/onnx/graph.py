"""A random graph while it grows: every piece is run in ONNX Runtime at several sets of sizes before it is kept."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from . import faults, noise, reference
from .values import BOOL, FLOATS, INTEGERS, UNSIGNED, Array, Reject, Value

Operand = Value | Array | np.generic | str | None
ELEMENTS, SIZE, RANK = 6000, 200, 6  # what a value may have: graphs are wide, not large
LARGEST = {"float16": 2e3, "float32": 1e6, "float64": 1e6}
OPSETS = (13, 17, 18, 19, 20, 21, 21, 22, 23)
PRIMES = (2, 3, 5, 7, 11, 13)
ODD_NAMES = (
    "class", "for", "None", "self", "burn", "nn", "ops", "forward", "float", "x", "_", "1", "N", "inputs", "print",
    "a b", "a.b", "a/b:0", "a-b", "a_b", "größe", "入力", "it's", 'say "x"', "back\\slash", "two\nlines", "weight", "bias",
)  # fmt: skip
"""Keywords, names of Python's and of the source's own, names that are alike once they are Python's, and other letters."""
PREFIXES = ("layers", "encoder.layer", "blocks", "h", "class", "model.my block", "0")


@dataclass
class Graph:
    seed: int
    sets: int = 3
    values: list[Value] = field(default_factory=list)
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    inputs: dict[str, list[int | str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.rng = np.random.default_rng(self.seed)
        self.opset = self.random.choice(OPSETS)
        self.zeros = self.chance(0.5)
        self.sizes = [self._sizes(number) for number in range(self.sets)]
        self.odd = self.chance(0.3)
        self._names: set[str] = set()
        self._drawn: dict[tuple[tuple[int, ...], str], list[Array]] = {}
        self._shared: dict[int, str] = {}  # constants by the identity of their arrays
        self.begin()

    def _sizes(self, number: int) -> dict[str, int]:
        """The first set has primes, the second ones among them, the third a larger prime, or zeros."""
        found = self.random.sample(PRIMES, 3)
        if number == 1:
            found = [self.random.choice([1, size]) for size in found]
        elif number == 2:
            found = [self.random.choice([0, 1, size, 17] if self.zeros else [size, 17, 19]) for size in found]
        return dict(zip("NML", found, strict=True))

    # The interface for steps

    def name(self, wanted: str = "") -> str:
        """A name that no value has: what is wanted, a number, or in some graphs one that is hard to keep."""
        base = wanted or (self.choice(ODD_NAMES) if self.odd and self.chance(0.4) else "v")
        count = len(self._names) + 1
        name = base if base != "v" and base not in self._names else f"{base}{'_' * (base != 'v')}{count}"
        self._names.add(name)
        return name

    def prefix(self) -> str:
        """The name of a module, the prefix of its parameters' names."""
        return self.choice(PREFIXES)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def choice(self, options: Sequence[Any]) -> Any:
        return self.random.choice(options)

    def pick(self, fits: Callable[[Value], bool] = lambda value: True, recent: float = 0.6) -> Value:
        """A value of the graph, more often a late one: graphs grow deep."""
        found = [value for value in self.values if fits(value)]
        if not found:
            raise Reject("no value fits")
        return self.choice(found[-5:] if self.chance(recent) else found)

    def numbers(self, shape: Sequence[int], dtype: np.dtype[Any] | type, kind: str | None = None) -> Array:
        """Random elements; now and then the same array again, which is one constant with several users."""
        dtype = np.dtype(dtype)
        before = self._drawn.setdefault((tuple(shape), dtype.name), [])
        if before and kind is None and self.chance(0.15):
            return self.choice(before)
        array = self._numbers(shape, dtype, kind)
        before.append(array)
        return array

    def _numbers(self, shape: Sequence[int], dtype: np.dtype[Any], kind: str | None) -> Array:
        if dtype == BOOL:
            return self.rng.random(shape) < 0.5
        if dtype in INTEGERS:
            low, high = (0, 9) if dtype in UNSIGNED else (-6, 7)
            if dtype.itemsize == 1 and self.chance(0.1):
                low, high = np.iinfo(dtype).min, np.iinfo(dtype).max + 1
            return self.rng.integers(low, high, shape).astype(dtype)
        draws: dict[str, Callable[[], Any]] = {
            "quarters": lambda: self.rng.integers(-16, 17, shape) / 4,
            "normal": lambda: self.rng.standard_normal(shape),
            "small": lambda: self.rng.integers(-3, 4, shape),
            "uniform": lambda: self.rng.random(shape),
            "zeros": lambda: np.zeros(shape),
            "ones": lambda: np.ones(shape),
        }
        return np.asarray(draws[kind or self.choice(["quarters", "normal", "normal", "small", "uniform"])](), dtype)

    def input(self, dims: list[int | str], dtype: np.dtype[Any] | type) -> Value:
        name = self.name()
        arrays = [self.numbers([sizes[d] if isinstance(d, str) else d for d in dims], dtype) for sizes in self.sizes]
        value = Value(name, arrays, [array.copy() for array in arrays])
        self.values.append(value)
        self.inputs[name] = dims
        return value

    def begin(self) -> None:
        """A new piece: nothing of the last one that was refused stays."""
        self._piece: list[onnx.NodeProto] = []
        self._piece_constants: list[onnx.TensorProto] = []
        self._piece_shared: dict[int, str] = {}
        self._hidden: set[str] = set()

    def node(self, op: str, *operands: Operand, outputs: int = 1, scope: str = "", **attributes: Any) -> list[str]:
        """Adds a node to the piece. Arrays become constants; an attribute of None is left out. scope: the module that the
        node's name says it stands in."""
        names = [self.name() for _ in range(outputs)]
        given = {key: value for key, value in attributes.items() if value is not None}
        name = f"/{scope}/{op}_{len(self._names)}" if scope else None
        self._piece.append(helper.make_node(op, self.operands(operands), names, name, **given))
        return names

    def drop(self, *names: str) -> None:
        """Leaves out these results of the piece's nodes."""
        for node in self._piece:
            node.output[:] = ["" if name in names else name for name in node.output]

    def constant(self, array: Array, name: str | None = None) -> str:
        """An initializer, with a name that is wished for."""
        named = self.name(name or "")
        self._piece_constants.append(numpy_helper.from_array(np.array(array, order="C"), named))
        return named

    def operands(self, operands: Iterable[Operand]) -> list[str]:
        names = [self._operand(operand) for operand in operands]
        while names and not names[-1]:
            names.pop()
        return names

    def _operand(self, operand: Operand) -> str:
        if operand is None or isinstance(operand, str):
            return operand or ""
        if isinstance(operand, Value):
            return operand.name
        shared = self._shared.get(id(operand)) or self._piece_shared.get(id(operand))
        if shared:
            return shared
        constant = numpy_helper.from_array(np.array(operand, order="C"), self.name())
        drawn = any(
            array is operand for array in self._drawn.get((np.shape(operand), np.asarray(operand).dtype.name), ())
        )
        if drawn:
            self._piece_shared[id(operand)] = constant.name
        elif self.chance(0.1):
            self._piece.append(helper.make_node("Constant", [], [constant.name], value=constant))
            self._hidden.add(constant.name)
            return constant.name
        self._piece_constants.append(constant)
        return constant.name

    def hide(self, *names: str) -> None:
        """These values are the piece's own: their types are none that ONNX Runtime gives to Python."""
        self._hidden |= set(names)

    # Keeping a piece

    def commit(self) -> None:
        """Runs the piece at every set of sizes and adds it with its results."""
        known = {value.name: value for value in self.values}
        free = dict.fromkeys(reference.free_names(self._piece))
        self._constants = [*self._piece_constants, *(c for c in self.constants if c.name in free)]
        own = {constant.name for constant in self._constants}
        used = [known[name] for name in free if name in known]
        if unknown := [name for name in free if name not in known and name not in own]:
            raise Reject(f"unknown values {unknown}")
        made = [name for node in self._piece for name in node.output if name and name not in self._hidden]
        run = self._runner(used, made)
        results = []
        for at in range(self.sets):
            feeds = {value.name: value.arrays[at] for value in used}
            twins = {value.name: value.twins[at] for value in used}
            found = run(feeds)
            self._refuse_faults(feeds | found)
            results.append((found, self._twins(run, used, at, found, run(twins))))
        for name in made:
            value = Value(name, [found[name] for found, _ in results], [twin[name] for _, twin in results])
            _refuse_unfit(value)
            self.values.append(value)
        self.nodes += self._piece
        self.constants += self._piece_constants
        self._shared |= self._piece_shared

    def _runner(self, used: list[Value], made: list[str]) -> Callable[[dict[str, Array]], dict[str, Array]]:
        inputs = [_info(value.name, value.dtype, [None] * value.rank) for value in used]
        model = make_model(
            self._piece, inputs, [onnx.ValueInfoProto(name=name) for name in made], self._constants, self.opset
        )
        try:
            session = reference.session(model)
        except Exception as error:
            raise Reject(f"not loaded: {str(error)[:200]}") from error

        def run(feed: dict[str, Array]) -> dict[str, Array]:
            try:
                return reference.outputs(session, feed)
            except Exception as error:
                raise Reject(f"not run: {str(error)[:200]}") from error

        return run

    def _refuse_faults(self, arrays: dict[str, Array]) -> None:
        constants = {constant.name: numpy_helper.to_array(constant) for constant in self._constants}
        for node in self._piece:
            site = faults.Site(node, [arrays.get(name, constants.get(name)) for name in node.input], self.opset)
            if reason := faults.fault(site):
                raise Reject(reason)

    def _twins(
        self,
        run: Callable[[dict[str, Array]], dict[str, Array]],
        used: list[Value],
        at: int,
        found: dict[str, Array],
        twins: dict[str, Array],
    ) -> dict[str, Array]:
        ops = set(reference.op_types(self._piece))
        if noise.rounding() and ops & noise.COUNTS and not all(value.exact for value in used):
            raise Reject("rounding decides a size")
        result = {}
        for name, array in found.items():
            if not isinstance(array, np.ndarray) or array.shape != twins[name].shape:
                raise Reject("noise changes the shape")
            result[name] = noise.disturb(self.rng, array, twins[name], used, at, ops, self._constants)
        if ops & noise.JUMPS and not all(value.exact for value in used):
            for factor in (noise.allowed(), -noise.allowed()):
                moved = run({v.name: noise.magnified(v.arrays[at], v.twins[at], factor) for v in used})
                for name, array in found.items():
                    if moved[name].shape != array.shape:
                        raise Reject("noise changes the shape")
                    result[name] = np.where(result[name] == array, moved[name], result[name])
        return result

    # Whole models

    def model(self, outputs: list[Value], inputs: list[Value], fixed: int | None) -> onnx.ModelProto:
        """A model that computes the outputs from the given inputs; sizes are named, or those of one set."""
        wanted, kept = {value.name for value in outputs}, []
        given = {value.name for value in inputs}
        for node in reversed(self.nodes):
            if wanted & set(node.output) and not given >= wanted & set(node.output):
                kept.append(node)
                wanted |= set(reference.free_names([node]))
        kept.reverse()
        infos = [_info(value.name, value.dtype, self.dims(value, fixed)) for value in inputs if value.name in wanted]
        named = [None if self.opset % 2 else [f"{v.name}_{i}" for i in range(v.rank)] for v in outputs]
        results = [_info(v.name, v.dtype, dims) for v, dims in zip(outputs, named, strict=True)]
        return make_model(kept, infos, results, [c for c in self.constants if c.name in wanted], self.opset)

    def dims(self, value: Value, fixed: int | None) -> list[int | str]:
        """A value's shape as an input: by names where sizes vary."""
        if fixed is not None:
            return list(value.arrays[fixed].shape)
        if value.name in self.inputs:
            return self.inputs[value.name]
        return [size if size is not None else self._named(value, axis) for axis, size in enumerate(value.dims)]

    def _named(self, value: Value, axis: int) -> str:
        sizes = [array.shape[axis] for array in value.arrays]
        at = next(i for i, other in enumerate(self.values) if other is value)
        return next((name for name in "NML" if [s[name] for s in self.sizes] == sizes), f"d{at}_{axis}")


def make_model(
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    constants: list[onnx.TensorProto],
    opset: int,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, "g", inputs, outputs, constants)
    vendor = [helper.make_opsetid("com.microsoft", 1)] if "com.microsoft" in reference.domains(nodes) else []
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *vendor], ir_version=10)


def _info(name: str, dtype: np.dtype[Any], dims: Sequence[int | str | None] | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), dims)


def _refuse_unfit(value: Value) -> None:
    """Values that would take the graph nowhere: large ones, overflows, nothing but NaN or nothing at all."""
    if value.dtype not in (*FLOATS, *INTEGERS, np.dtype(bool)):
        raise Reject("type")
    if len({array.ndim for array in value.arrays}) > 1 or value.rank > RANK:
        raise Reject("rank")
    if any(array.size > ELEMENTS or max(array.shape, default=0) > SIZE for array in value.arrays):
        raise Reject("large")
    if not any(array.size for array in value.arrays):
        raise Reject("empty")
    if value.dtype in FLOATS:
        for array in value.arrays:
            if (array.size and np.isnan(array).mean() > 0.5) or noise.largest(array) > LARGEST[value.dtype.name]:
                raise Reject("overflow")
