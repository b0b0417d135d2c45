"""Element types and tensor types, and their forms in MLIR, in memory and in numpy.

`DTYPES` is the table; `TensorType` is the compiler's type; `type_of` reads it from an MLIR value.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

from burn.dialect.dims import Dim, Expr, dim_broadcast, parse, product
from burn.dialect.mlir import ir
from burn.errors import TypeMismatch

if TYPE_CHECKING:
    import numpy as np

    from burn.dialect.deferred import Value


@dataclass(frozen=True)
class DType:
    """One element type. Sub-byte types and booleans occupy a whole byte in memory.

    An element of type string, or list (of tensors; always a scalar), is the address of a record that the runtime keeps
    until the run ends: burn/runtime/native/heap.h.
    """

    name: str
    mlir: str  # in the burn dialect
    numpy: str  # numpy's or ml_dtypes' name
    size: int  # bytes in memory
    kind: str  # float, small (f8, f4), int, uint, bool, complex, string, list
    bits: int


def _dtype(name: str, mlir: str, size: int, kind: str, bits: int = 0, numpy: str = "") -> DType:
    return DType(name, mlir, numpy or name, size, kind, bits or 8 * size)


DTYPES: dict[str, DType] = {
    d.name: d
    for d in (
        _dtype("float64", "f64", 8, "float"),
        _dtype("float32", "f32", 4, "float"),
        _dtype("float16", "f16", 2, "float"),
        _dtype("bfloat16", "bf16", 2, "float"),
        _dtype("float8_e4m3fn", "f8E4M3FN", 1, "small"),
        _dtype("float8_e4m3fnuz", "f8E4M3FNUZ", 1, "small"),
        _dtype("float8_e5m2", "f8E5M2", 1, "small"),
        _dtype("float8_e5m2fnuz", "f8E5M2FNUZ", 1, "small"),
        _dtype("float8_e8m0fnu", "f8E8M0FNU", 1, "small"),
        _dtype("float4_e2m1fn", "f4E2M1FN", 1, "small", 4),
        _dtype("int2", "i2", 1, "int", 2),
        _dtype("int4", "i4", 1, "int", 4),
        _dtype("int8", "i8", 1, "int"),
        _dtype("int16", "i16", 2, "int"),
        _dtype("int32", "i32", 4, "int"),
        _dtype("int64", "i64", 8, "int"),
        _dtype("uint2", "ui2", 1, "uint", 2),
        _dtype("uint4", "ui4", 1, "uint", 4),
        _dtype("uint8", "ui8", 1, "uint"),
        _dtype("uint16", "ui16", 2, "uint"),
        _dtype("uint32", "ui32", 4, "uint"),
        _dtype("uint64", "ui64", 8, "uint"),
        _dtype("bool", "i1", 1, "bool", 1),
        _dtype("complex64", "complex<f32>", 8, "complex"),
        _dtype("complex128", "complex<f64>", 16, "complex"),
        _dtype("string", "!llvm.ptr", 8, "string"),
        _dtype("list", "!llvm.ptr<1>", 8, "list"),
    )
}
_BY_MLIR = {d.mlir: d.name for d in DTYPES.values()}
FLOATS = tuple(n for n, d in DTYPES.items() if d.kind == "float")
HALF_DTYPES = ("float16", "bfloat16")
INTEGERS = tuple(n for n, d in DTYPES.items() if d.kind in ("int", "uint"))
PARTS = {"complex64": "float32", "complex128": "float64"}
"""The element type of the real and the imaginary part, by the complex one."""
WHOLES = {part: whole for whole, part in PARTS.items()}
CONTINUOUS = frozenset((*FLOATS, *PARTS))
"""The element types with derivatives."""


def dtype_of_numpy(dtype: np.dtype[Any]) -> str:
    """burn's name of a numpy dtype. Raises KeyError if there is none."""
    name = "string" if dtype.kind in "OUST" else dtype.name
    return DTYPES[name].name


@cache
def numpy_dtype(name: str) -> np.dtype[Any]:
    import ml_dtypes
    import numpy as np

    text = DTYPES[name].numpy
    return np.dtype(object) if name in ("string", "list") else np.dtype(getattr(ml_dtypes, text, text))


LARGEST = 2**63 - 1


@dataclass(frozen=True)
class TensorType:
    """A dense row-major tensor: element type and sizes (ints or symbolic expressions)."""

    dtype: str
    shape: tuple[Dim, ...]

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.dtype, self.shape))

    @property
    def rank(self) -> int:
        return len(self.shape)

    @cached_property
    def elements(self) -> Dim:
        return product(self.shape)

    @property
    def element_bytes(self) -> int:
        return DTYPES[self.dtype].size

    @cached_property
    def bytes(self) -> Dim:
        return self.elements * self.element_bytes

    @cached_property
    def is_static(self) -> bool:
        return all(isinstance(d, int) for d in self.shape)

    def with_shape(self, shape: tuple[Dim, ...]) -> TensorType:
        return TensorType(self.dtype, tuple(shape))

    def with_dtype(self, dtype: str) -> TensorType:
        return TensorType(dtype, self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    def check_sizes(self) -> None:
        """Raises TypeMismatch if a size does not fit into 64 bits."""
        if any(isinstance(d, int) and d > LARGEST for d in self.shape):
            raise TypeMismatch("a size is too large", [f"{self}: a size is at most {LARGEST}"])

    def to_mlir(self) -> ir.Type:
        made = _TO_MLIR.get(self)
        if made is None:
            self.check_sizes()
            sizes = "".join(f"{d}x" if isinstance(d, int) else "?x" for d in self.shape)
            names = ", ".join(f'"{d}"' for d in self.shape)
            encoding = "" if self.is_static else f", [{names}]"
            made = _TO_MLIR[self] = ir.Type.parse(f"tensor<{sizes}{DTYPES[self.dtype].mlir}{encoding}>")
            _FROM_MLIR[made] = self
        return made

    @staticmethod
    def from_mlir(type_: ir.Type) -> TensorType:
        """Raises ValueError for a type that is not one of burn's tensors."""
        known = _FROM_MLIR.get(type_)
        if known is None:
            if not isinstance(type_, ir.RankedTensorType):
                raise ValueError(f"not a tensor type: {type_}")
            dims: list[Dim] = []
            encoding = type_.encoding
            for axis in range(type_.rank):
                if not type_.is_dynamic_dim(axis):
                    dims.append(type_.get_dim_size(axis))
                elif encoding is None:
                    raise ValueError(f"dimension {axis} of {type_} has no name")
                else:
                    dims.append(parse(ir.StringAttr(ir.ArrayAttr(encoding)[axis]).value))
            known = _FROM_MLIR[type_] = TensorType(_BY_MLIR[str(type_.element_type)], tuple(dims))
        return known


RANDOM_STATE = TensorType("uint64", (2,))
"""The random state of a run: a seed, and a number that is new at each run."""


@dataclass(frozen=True)
class Container:
    """The type of a sequence or optional of tensors: `kinds` from outside in ("sequence" or "optional"), and the
    tensors' element type and shape. A symbolic size stands for any size; no shape stands for any rank."""

    kinds: tuple[str, ...]
    dtype: str
    shape: tuple[Dim, ...] | None

    def __str__(self) -> str:
        sizes = "..." if self.shape is None else ", ".join(map(str, self.shape))
        return " ".join((*self.kinds, f"{self.dtype}[{sizes}]"))

    @staticmethod
    def parse(text: str) -> Container:
        """Parses the text of `str`. Raises ValueError."""
        head, _, sizes = text.partition("[")
        *kinds, dtype = head.split(" ")
        if not kinds or not set(kinds) <= {"sequence", "optional"} or dtype not in DTYPES or not sizes.endswith("]"):
            raise ValueError(f"'{text}' is not a sequence or an optional of tensors")
        sizes = sizes[:-1].strip()
        shape = None if sizes == "..." else tuple(parse(size) for size in sizes.split(",") if size.strip())
        return Container(tuple(kinds), dtype, shape)


_TO_MLIR: dict[TensorType, ir.Type] = {}
_FROM_MLIR: dict[ir.Type, TensorType] = {}


def type_of(value: Value) -> TensorType:
    """The type of a value, built or recorded."""
    type_ = value.type
    if type_.__class__ is TensorType:
        return type_
    known = _FROM_MLIR.get(type_)  # without a call: passes read each value's type many times
    return TensorType.from_mlir(type_) if known is None else known


def broadcast_shapes(*shapes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """numpy's rule, aligned at the last axis. Two different symbolic sizes must be equal or one of them 1, which is
    known only at run time: they give `dims.dim_broadcast`. Raises ValueError for two different numbers other than 1."""
    rank = max(map(len, shapes), default=0)
    result: list[Dim] = []
    for axis in range(-rank, 0):
        sizes = [s[axis] for s in shapes if len(s) >= -axis]
        numbers = {d for d in sizes if isinstance(d, int) and d != 1}
        if len(numbers) > 1:
            raise ValueError(
                f"cannot broadcast {' with '.join(map(_text, shapes))}: axis {axis} has sizes {sorted(numbers)}"
            )
        result.append(dim_broadcast(*sizes))
    return tuple(result)


def may_equal(have: tuple[Dim, ...], want: tuple[Dim, ...]) -> bool:
    """True if two shapes may be equal, before named sizes are known; `compose.check_equal` checks the rest."""
    return len(have) == len(want) and all(_may_be(a, b) for a, b in zip(have, want, strict=True))


def may_spread(have: tuple[Dim, ...], want: tuple[Dim, ...]) -> bool:
    """True if a shape may broadcast to another; `compose.check_spreads` checks the rest."""
    missing = len(want) - len(have)
    return missing >= 0 and all(a == 1 or _may_be(a, b) for a, b in zip(have, want[missing:], strict=True))


def _may_be(a: Dim, b: Dim) -> bool:
    return a == b or is_symbolic(a) or is_symbolic(b)


def _text(shape: tuple[Dim, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def is_symbolic(dim: Dim) -> bool:
    return isinstance(dim, Expr)
