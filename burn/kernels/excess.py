"""Excess precision: leaves out rounding to half precision between operations of one kernel.

The pass `precision` makes each op round its result. Operations in half precision are computed in float32, so a kernel that
computes several of them rounds and converts back between each two. `without_rounding` keeps such values in float32, as XLA's
`xla_allow_excess_precision` does. Results in memory, and operands of contractions, are rounded once. `coarsened` marks functions
whose last digits rounding to bfloat16 removes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from burn.dialect.dims import atoms
from burn.dialect.functions import FUNCTIONS
from burn.dialect.types import HALF_DTYPES
from burn.kernels.body import (
    Apply,
    AttentionKernel,
    ContractionKernel,
    Convert,
    Fetched,
    Kernel,
    LoopKernel,
    Rewriter,
    Scalar,
    Where,
    children,
    own_dims,
)
from burn.kernels.gelu import gelu_of
from burn.kernels.rewrite import map_values

WIDE = "float32"

COARSE = frozenset(("sigmoid",))
"""Expensive functions that targets may compute with fewer digits, besides GELU."""

KEEPS_RELATIVE_ERROR = frozenset(("mul", "neg", "abs", "max", "min", "select"))
"""Functions whose result's relative error is at most the sum of those of its arguments. A sum is none: terms may cancel."""

FUNCTIONS_IN_HALF = frozenset(row.name for row in FUNCTIONS if row.half)
"""Those that the pass `precision` computes in half precision: their results do not depend on the spacing of numbers."""


def without_rounding(kernel: Kernel) -> Kernel:
    """The kernel with float32 values in place of half-precision ones that it does not write."""
    rewrite = _Widening(lambda dim: dim)
    return map_values(kernel, rewrite, rewrite)


def coarsened(kernel: Kernel) -> Kernel:
    """The kernel with marked functions of `COARSE`, and GELU, whose result is rounded to bfloat16. Functions of
    `KEEPS_RELATIVE_ERROR` may be in between. float16 has three more bits, so its results would have larger errors."""
    match kernel:
        case LoopKernel():
            writes = [w for stage in kernel.stages for w in stage.writes]
            bodies = [r.body for stage in kernel.stages for r in stage.reductions]
        case ContractionKernel() | AttentionKernel():
            writes, bodies = list(kernel.epilogue), list[Scalar]()
        case _:
            return kernel
    mark = _Marking(lambda dim: dim, rounded=_only_rounded([*(w.value for w in writes), *bodies]))
    return map_values(kernel, mark)


def _only_rounded(roots: list[Scalar]) -> set[int]:
    """The nodes whose readers all see bfloat16, by identity. An index reads its source as it is."""
    seen: set[tuple[int, bool]] = set()
    todo = [(root, False) for root in roots]
    while todo:
        node, rounded = todo.pop()
        if (id(node), rounded) in seen:
            continue
        seen.add((id(node), rounded))
        match node:
            case Apply(function=function):
                rounded = rounded and function in KEEPS_RELATIVE_ERROR
            case Where():
                pass
            case _:
                rounded = _is_rounded(node) and node.dtype == "bfloat16"
        todo += [(child, rounded) for child in children(node)]
        todo += [(atom.source, False) for dim in own_dims(node) for atom in atoms(dim) if isinstance(atom, Fetched)]
    return {identity for identity, rounded in seen if rounded and (identity, False) not in seen}


@dataclass
class _Marking(Rewriter):
    """Sets `coarse`. rounded: the nodes for which `_only_rounded` holds, by identity."""

    rounded: set[int] = field(default_factory=set)

    def _rebuild(self, node: Scalar) -> Scalar:
        made = super()._rebuild(node)
        if isinstance(made, Apply) and made.dtype == WIDE and id(node) in self.rounded and _has_coarse_form(made):
            return replace(made, coarse=True)
        return made


def _has_coarse_form(node: Apply) -> bool:
    return node.function in COARSE or gelu_of(node) is not None


@dataclass
class _Widening(Rewriter):
    """Rebuilds half-precision operations as float32 ones with a conversion behind them, which a reader in float32 skips. wide:
    the conversions of other values, by identity."""

    wide: dict[int, tuple[Scalar, Scalar]] = field(default_factory=dict)

    def _rebuild(self, node: Scalar) -> Scalar:
        made = super()._rebuild(node)
        match made:
            case Convert(dtype=dtype, arg=arg) if dtype == WIDE and arg.dtype in HALF_DTYPES:
                return self._widened(arg)
            case Apply(dtype=dtype, function=function, args=args) if (
                dtype in HALF_DTYPES and function in FUNCTIONS_IN_HALF
            ):
                if function == "select" and not any(map(_is_rounded, args)):
                    return made
                return Convert(dtype, Apply(WIDE, function, tuple(map(self._widened, args))))
            case Where(dtype=dtype, then=then, otherwise=otherwise) if _is_rounded(then) or _is_rounded(otherwise):
                widened = self._widened(then), self._widened(otherwise)
                return Convert(dtype, Where(WIDE, made.ranges, *widened))
        return made

    def _widened(self, value: Scalar) -> Scalar:
        """A half-precision value in float32: before its rounding, or converted. Others (conditions) as they are."""
        if value.dtype not in HALF_DTYPES:
            return value
        if _is_rounded(value):
            assert isinstance(value, Convert)
            return value.arg
        if id(value) not in self.wide:
            self.wide[id(value)] = (value, Convert(WIDE, value))
        return self.wide[id(value)][1]


def _is_rounded(value: Scalar) -> bool:
    return isinstance(value, Convert) and value.dtype in HALF_DTYPES and value.arg.dtype == WIDE
