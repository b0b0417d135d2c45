"""How ops are written: a table of emitters, one function for each op (or for some uses of it). Enter at `emits` and `Site`.

    @emits("softmax", operator="Softmax")
    def softmax(site: Site) -> str:
        return site.node("Softmax", *site.inputs, axis=site.op.axis)

Of several emitters of one op the first that applies is taken. A composite with none that applies is decomposed. An emitter
may absorb ops that its op uses, which are then not written on their own (ops/fused.py); such emitters come first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from burn.dialect.dims import Dim
from burn.dialect.op import Op
from burn.dialect.types import DTYPES, TensorType, numpy_dtype, type_of
from burn.dialect.weights import WeightStore
from burn.exporters.onnx.graph import GraphWriter, Refused, schema
from burn.exporters.onnx.kernels import carrier, computed_in
from burn.exporters.onnx.sizes import Sizes


@dataclass
class Site:
    """One op being written. `inputs` are its operands' names as the op groups them, `types` their types."""

    op: Op
    graph: GraphWriter
    sizes: Sizes
    inputs: list[Any]
    weights: WeightStore
    region: Callable[[Any, str, list[str]], Any]  # writes a region as a subgraph: (region, name, arguments' names)
    of: Callable[[Op], Site]  # another op's site

    def __post_init__(self) -> None:
        self.attrs: dict[str, Any] = self.op.attrs
        self.types: list[Any] = [_types(a) for a in self.op.args]
        self.results: list[TensorType] = [type_of(r) for r in self.op.operation.results]

    def node(self, operator: str, *inputs: str | None, outputs: int = 1, **attributes: Any) -> Any:
        """A node; see GraphWriter.node."""
        return self.graph.node(operator, *inputs, outputs=outputs, **attributes)

    def cast(self, name: str, dtype: str) -> str:
        return self.graph.cast(name, dtype)

    def dtype(self, name: str) -> str:
        return self.graph.dtypes[name]

    # ---- constants and sizes -----------------------------------------------------------------------------------------
    def number(self, value: float, dtype: str) -> str:
        """A scalar constant."""
        return self.graph.literal(np.array(value).astype(numpy_dtype(dtype)))

    def like(self, value: float, name: str) -> str:
        return self.number(value, self.dtype(name))

    def ints(self, values: Sequence[int]) -> str:
        """int64[n], written out."""
        return self.graph.literal(np.array(values, np.int64).reshape(-1))

    def vector(self, dims: Sequence[Dim]) -> str:
        """int64[n] of sizes."""
        return self.sizes.vector(dims)

    # ---- views that many emitters need -------------------------------------------------------------------------------
    def reshape(self, name: str, have: Sequence[Dim], want: Sequence[Dim]) -> str:
        """`name`, of shape `have`, in the shape `want`; the shape is a constant wherever ONNX can express it as one."""
        have, want = tuple(have), tuple(want)
        if have == want:
            return name
        if all(isinstance(d, int) for d in want):
            return self.node("Reshape", name, self.ints(want), allowzero=1 if 0 in want else None)  # type: ignore[arg-type]
        copied = [0 if not isinstance(d, int) and i < len(have) and have[i] == d else d for i, d in enumerate(want)]
        unknown = [d for d in copied if not isinstance(d, int)]
        if 0 not in want and not unknown:
            return self.node("Reshape", name, self.ints(copied))  # type: ignore[arg-type]
        if 0 not in want and sum(not isinstance(d, int) for d in want) == 1:
            return self.node("Reshape", name, self.ints([d if isinstance(d, int) else -1 for d in want]))
        return self.node("Reshape", name, self.vector(want), allowzero=1)

    def transpose(self, name: str, permutation: Sequence[int]) -> str:
        if list(permutation) == list(range(len(permutation))):
            return name
        return self.node("Transpose", name, perm=list(permutation))

    def expand(self, name: str, have: Sequence[Dim], want: Sequence[Dim]) -> str:
        return name if tuple(have) == tuple(want) else self.node("Expand", name, self.vector(want))

    def refuse(self, reason: str, hint: str = "") -> NoReturn:
        raise Refused(reason, hint)


def _types(operand: Any) -> Any:
    if isinstance(operand, list):
        return [type_of(v) for v in operand]
    return None if operand is None else type_of(operand)


Function = Callable[[Site], Any]


@dataclass(frozen=True)
class Emitter:
    """A way to write an op: from which opset on, in which of its uses, through which operator."""

    function: Function
    since: int
    when: Callable[[Any], bool]
    operator: str | None
    absorbs: Callable[[Any], list[Op]] | None

    def applies(self, op: Op, opset: int) -> bool:
        """Also whether the operator is computed in the first operand's type, or exactly in another."""
        if opset < self.since or not self.when(op) or (self.absorbs is not None and not self.absorbs(op)):
            return False
        if self.operator is None:
            return True
        found = schema(self.operator, opset)
        return found is not None and _takes(self.operator, type_of(op.operation.operands[0]).dtype)


def _takes(operator: str, dtype: str) -> bool:
    if computed_in(operator, dtype):
        return True
    # a composite would round between its steps otherwise than the operator does: only the 16-bit floats go wider, as in
    # burn's own decompositions
    return DTYPES[dtype].kind == "float" and DTYPES[dtype].bits == 16 and carrier(operator, dtype) is not None


EMITTERS: dict[str, list[Emitter]] = {}
"""By op name."""


def emits(
    *names: str,
    since: int = 18,
    when: Callable[[Any], bool] = lambda op: True,
    operator: str | None = None,
    absorbs: Callable[[Any], list[Op]] | None = None,
) -> Callable[[Function], Function]:
    """Registers an emitter.

    `operator`: for a composite, the ONNX operator that it becomes. It must exist in the opset and be computed in the op's element
    type. `absorbs`: the ops that are written together with this one; without any, the emitter does not apply."""

    def register(function: Function) -> Function:
        for name in names:
            table = EMITTERS.setdefault(name, [])
            table.insert(0 if absorbs is not None else len(table), Emitter(function, since, when, operator, absorbs))
        return function

    return register


def emitter_for(op: Op, opset: int) -> Emitter | None:
    """The emitter that an op is written with at an opset; None where there is none."""
    return next((e for e in EMITTERS.get(op.OP_NAME, ()) if e.applies(op, opset)), None)
