"""The module of a segment for given sizes, compiled: `Modules`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from burn.codegen.failure import failed
from burn.codegen.stablehlo.elements import carrier
from burn.codegen.stablehlo.emitter import Disagreement, Emission, Site
from burn.codegen.stablehlo.ops.casts import wrapped
from burn.codegen.stablehlo.ops.library import COUNTED
from burn.codegen.stablehlo.ops.shape import carried
from burn.codegen.stablehlo.text import Tensor, TextBuilder
from burn.codegen.xla.client import Client, Module
from burn.codegen.xla.plan import Segment
from burn.dialect.mlir import ir
from burn.dialect.op import Op
from burn.dialect.types import DTYPES, type_of
from burn.runtime.abi import Status

KEPT = 64
"""The most modules that a program keeps: each combination of sizes has its own."""

INLINE = 64
"""The most bytes of a weight that is written into the module, where XLA can fold it."""


@dataclass(frozen=True)
class Compiled:
    """sites: the source nodes that failures name, by their numbers. weights: the keys of the arguments behind the inputs.
    watches: the last two results are a failure and its number."""

    module: Module
    sites: Sequence[str]
    weights: Sequence[str]
    watches: bool = False


class Modules:
    """Those of one program. weights: constants by key."""

    def __init__(self, client: Client, weights: Mapping[str, np.ndarray]) -> None:
        self.client, self._weights = client, weights
        self._put: dict[str, Any] = {}
        self._made: OrderedDict[Hashable, Compiled] = OrderedDict()
        self._lock = threading.Lock()

    def weight(self, key: str) -> Any:
        """A constant on the device, put there once."""
        with self._lock:
            if key not in self._put:
                array = self._weights[key]
                dtype = _name(array)
                self._put[key] = self.client.put(carried(array, dtype))
            return self._put[key]

    def kept(self, key: Hashable, make: Callable[[], Compiled]) -> Compiled:
        """The result of `make`, which is called once for a key while that is among the last `KEPT` ones."""
        with self._lock:
            found = self._made.get(key)
            if found is not None:
                self._made.move_to_end(key)
                return found
        made = make()  # two threads may compile the same module
        with self._lock:
            self._made[key] = made
            if len(self._made) > KEPT:
                self._made.popitem(last=False)
        return made

    def of_segment(self, segment: Segment, sizes: Mapping[str, int], shapes: Sequence[tuple[int, ...]]) -> Compiled:
        """shapes: of the inputs. An input that is longer than its type says is cut first. Raises Failed."""
        key = (segment.number, tuple(sizes.get(name, -1) for name in segment.symbols), tuple(shapes))
        return self.kept(key, lambda: self._compiled(segment, sizes, shapes))

    def of_function(
        self,
        key: Hashable,
        function: Callable[..., Sequence[Tensor]],
        shapes: Sequence[tuple[int, ...]],
        dtypes: Sequence[str],
    ) -> Compiled:
        """A module that applies a function of a builder and of values in their carriers."""

        def make() -> Compiled:
            b = TextBuilder({})
            arguments = [Tensor(f"%arg{i}", s, d) for i, (s, d) in enumerate(zip(shapes, dtypes, strict=True))]
            return Compiled(self.client.compile(_module(b, arguments, function(b, *arguments))), (), ())

        return self.kept((key, tuple(shapes), tuple(dtypes)), make)

    def _compiled(self, segment: Segment, sizes: Mapping[str, int], shapes: Sequence[tuple[int, ...]]) -> Compiled:
        b = TextBuilder(sizes)
        keys: dict[str, Tensor] = {}

        def weight(op: Op) -> Tensor:
            array = self._weights[op.key]
            if array.nbytes <= INLINE:
                return b.dense(carried(array, op.dtype), carrier(op.dtype))
            if op.key not in keys:
                keys[op.key] = Tensor(f"%weight{len(keys)}", tuple(array.shape), carrier(op.dtype))
            return keys[op.key]

        emission = Emission(b, weight, checks=True)
        arguments = []
        for number, (value, shape) in enumerate(zip(segment.inputs, shapes, strict=True)):
            dtype = type_of(value).dtype
            arguments.append(Tensor(f"%arg{number}", tuple(shape), carrier(dtype)))
            emission.values[value] = _entered(b, arguments[-1], value)
        counted = segment.counted
        try:
            emission.block([op.operation.opview for op in segment.ops if op is not counted])
            results = [emission.values[v] for v in segment.outputs if v in emission.values]
            if counted is not None:
                emission.agree(counted)
                padded, count = COUNTED[counted.OP_NAME](Site(counted, emission))
                results = [*results, *padded, count]
        except Disagreement as error:
            failed(error.status, error.site, error.value)
        except MemoryError:
            failed(Status.OUT_OF_MEMORY)
        failure = emission.failure
        text = _module(b, [*arguments, *keys.values()], [*results, *(failure or ())])
        return Compiled(self.client.compile(text), emission.sites, tuple(keys), failure is not None)


def _entered(b: TextBuilder, argument: Tensor, value: ir.Value) -> Tensor:
    """An input in the shape that its type says, and with no bits beside those of its element type."""
    type_ = type_of(value)
    shape = tuple(map(b.size, type_.shape))
    if argument.shape != shape:
        argument = b.slice(argument, [0] * len(shape), shape, [1] * len(shape))
    return wrapped(b, argument, type_.dtype)


def _module(b: TextBuilder, arguments: Sequence[Tensor], results: Sequence[Tensor]) -> str:
    b.return_(results, "func.return")
    listed = ", ".join(f"{a.name}: {a.type}" for a in arguments)
    types = ", ".join(r.type for r in results)
    lines = "\n".join(b.lines)
    return f"module @burn {{\n  func.func public @main({listed}) -> ({types}) {{\n{lines}\n  }}\n}}\n"


def _name(array: np.ndarray) -> str:
    return next(name for name, info in DTYPES.items() if info.numpy == array.dtype.name)
