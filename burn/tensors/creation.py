"""Creation of tensors: constants, ranges, grids, and conversion from other libraries.

`dtype` defaults to "float32" unless stated; sizes may be symbolic in a traced function. Functions for `burn.<name>`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from burn.dialect import compose
from burn.dialect import ops as build
from burn.dialect.dims import Dim, Expr, ceildiv, dim_max, plain
from burn.dialect.spec import element_type
from burn.dialect.types import DTYPES, FLOATS, broadcast_shapes
from burn.errors import TypeMismatch, WrongArgument
from burn.runtime.arrays import is_foreign
from burn.tensors.base import Base, made, sequence
from burn.tensors.promotion import Operand, constant, from_dlpack, lift, rounded

if TYPE_CHECKING:
    from burn.tensors.tensor import Tensor

Shape = Sequence[Dim] | Dim


def checked_shape(shape: Any) -> tuple[Dim, ...]:
    dims = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    dims = tuple(int(d) if isinstance(d, np.integer) else d for d in dims)
    wrong = [d for d in dims if not isinstance(d, (int, Expr)) or isinstance(d, bool) or (isinstance(d, int) and d < 0)]
    if wrong:
        raise WrongArgument("a shape is made of sizes", [f"not of {wrong[0]!r}"])
    if math.prod(d for d in dims if isinstance(d, int) and d) >= 1 << 60:  # bytes are counted in 63 bits
        raise TypeMismatch("no memory holds such a tensor", [f"its shape is [{', '.join(map(str, dims))}]"])
    return tuple(map(plain, dims))


# ---- one number everywhere ---------------------------------------------------------------------------------------------
def full(shape: Shape, value: Operand, dtype: Any = None) -> Tensor:
    """`value` everywhere. Without dtype: float32 for a float, int64 for an int, complex64 or bool for others; a tensor's own."""
    if isinstance(value, Base):
        filled = value if dtype is None else value.astype(dtype)  # type: ignore[attr-defined]
        return made(compose.broadcast_to(filled.value, checked_shape(shape)))
    if dtype is None:
        kinds = {bool: "bool", (int, Expr): "int64", complex: "complex64"}
        dtype = next((name for types, name in kinds.items() if isinstance(value, types)), "float32")
    dtype = element_type(dtype)
    number = lift(value, dtype)  # refuses what the element type does not hold
    if not isinstance(value, (bool, int, float)):
        return made(compose.broadcast_to(number.astype(dtype).value, checked_shape(shape)))
    bits = compose.signed(int(value)) if DTYPES[dtype].kind in ("int", "uint") else None
    return made(build.full(shape=checked_shape(shape), dtype=dtype, value=float(rounded(value, dtype)), bits=bits))


def zeros(*shape: Any, dtype: Any = "float32") -> Tensor:
    """Zeros: `zeros(2, 3)` or `zeros((2, 3))`."""
    return made(build.full(shape=checked_shape(sequence(shape)), dtype=element_type(dtype), value=0.0))


def ones(*shape: Any, dtype: Any = "float32") -> Tensor:
    """Ones: `ones(2, 3)` or `ones((2, 3))`."""
    return made(build.full(shape=checked_shape(sequence(shape)), dtype=element_type(dtype), value=1.0))


def full_like(x: Tensor, value: Operand, dtype: Any = None) -> Tensor:
    """`value` in the shape of x, and its element type unless another is given."""
    return full(x.type.shape, value, dtype or x.dtype)


def zeros_like(x: Tensor, dtype: Any = None) -> Tensor:
    """Zeros in the shape of x, and its element type unless another is given."""
    return zeros(x.type.shape, dtype=dtype or x.dtype)


def ones_like(x: Tensor, dtype: Any = None) -> Tensor:
    """Ones in the shape of x, and its element type unless another is given."""
    return ones(x.type.shape, dtype=dtype or x.dtype)


# ---- ranges ------------------------------------------------------------------------------------------------------------
def arange(start: Any, stop: Any = None, step: Any = 1, dtype: Any = None) -> Tensor:
    """start, start + step, ... before stop; `arange(n)` starts at 0. Numbers or sizes; int64 unless one is a float."""
    first, last = (0, start) if stop is None else (start, stop)
    numbers: list[Any] = [plain(n) if isinstance(n, Expr) else n for n in (first, last, step)]
    first, last, step = numbers
    if any(not isinstance(n, (int, float, Expr)) for n in numbers) or (isinstance(step, (int, float)) and step == 0):
        raise TypeMismatch("arange counts from start to stop by a step that is not 0", [f"not by {numbers}"])
    floats = any(isinstance(n, float) for n in numbers)
    if dtype is None:
        dtype = "float32" if floats else "int64"
    if isinstance(first, float) or isinstance(last, float) or isinstance(step, float):
        if any(isinstance(n, Expr) for n in numbers):
            raise TypeMismatch("arange by fractions needs numbers", [f"not the sizes {numbers}"])
        count: Dim = max(0, math.ceil((last - first) / step))
    elif isinstance(step, Expr):
        raise TypeMismatch("arange needs a step that is a number", [f"not the size {step}"])
    else:
        span = ceildiv(last - first, step) if step > 0 else ceildiv(first - last, -step)
        count = dim_max(0, span)
    own = DTYPES[element_type(dtype)]
    if not floats and first == 0 and step == 1 and own.kind in ("int", "uint") and own.bits >= 8:
        return made(build.iota(shape=(count,), axis=0, dtype=element_type(dtype)))
    index = build.iota(shape=(count,), axis=0, dtype="float64" if floats else "int64")
    kind = "float64" if floats else "int64"
    indices = build.mul(index, lift(step, kind).value) if step != 1 else index
    indices = build.add(indices, lift(first, kind).value) if first != 0 else indices
    return made(compose.convert(indices, element_type(dtype)))


def linspace(start: float, stop: float, num: Dim = 50, endpoint: bool = True, dtype: Any = "float32") -> Tensor:
    """`num` numbers evenly spaced from start to stop, the last of them stop itself unless endpoint is false."""
    return made(compose.convert(_spaced(start, stop, num, endpoint).value, element_type(dtype)))


def logspace(
    start: float, stop: float, num: Dim = 50, endpoint: bool = True, base: float = 10.0, dtype: Any = "float32"
) -> Tensor:
    """base to the powers `linspace(start, stop, num)`."""
    powers = lift(float(base), "float64") ** _spaced(start, stop, num, endpoint)
    return made(compose.convert(powers.value, element_type(dtype)))


def _spaced(start: float, stop: float, num: Dim, endpoint: bool) -> Tensor:
    """In float64."""
    (count,) = checked_shape(num)
    gaps = count - 1 if endpoint else count
    position = made(build.iota(shape=(count,), axis=0, dtype="float64"))
    if isinstance(gaps, int):
        step = lift((float(stop) - float(start)) / max(gaps, 1), "float64")
    else:
        step = (float(stop) - float(start)) / made(compose.dim_value(gaps, "float64")).maximum(1.0)
    row = position * step + float(start)
    if endpoint and count != 1:  # exactly stop, whatever the rounding of the multiplication
        last = (position == made(compose.dim_value(gaps, "float64"))) & (position > 0)
        row = last.where(float(stop), row)
    return row


# ---- matrices and grids ------------------------------------------------------------------------------------------------
def eye(rows: Dim, columns: Dim | None = None, k: int = 0, dtype: Any = "float32") -> Tensor:
    """Ones on diagonal k, zeros elsewhere."""
    return _related("eq", rows, columns, k, dtype)


def tri(rows: Dim, columns: Dim | None = None, k: int = 0, dtype: Any = "float32") -> Tensor:
    """Ones on and below diagonal k, zeros elsewhere."""
    return _related("le", rows, columns, k, dtype)


def _related(relation: str, rows: Dim, columns: Dim | None, k: int, dtype: str) -> Tensor:
    height, width = checked_shape((rows, rows if columns is None else columns))
    row = build.add(build.iota(shape=(height, 1), axis=0), compose.number(k, "int64"))
    inside = getattr(build, relation)(build.iota(shape=(1, width), axis=1), row)
    return made(compose.convert(inside, element_type(dtype)))


def meshgrid(*vectors: Operand | Sequence[Any], indexing: str = "xy") -> list[Tensor]:
    """Vectors as grids of one shape, each varying along its own axis; "xy" (numpy's default) exchanges the first two
    axes, "ij" does not."""
    if indexing not in ("xy", "ij"):
        raise TypeMismatch("meshgrid's indexing is xy or ij", [f"not {indexing!r}"])
    flat = [constant(v).ravel() for v in vectors]
    order = list(range(len(flat)))
    if indexing == "xy" and len(flat) > 1:
        order[0], order[1] = 1, 0
    shape = [flat[i].size for i in order]
    grids = []
    for index, vector in enumerate(flat):
        axis = order.index(index)
        grids.append(
            vector.reshape(*(vector.type.elements if i == axis else 1 for i in range(len(flat)))).broadcast_to(*shape)
        )
    return grids


def one_hot(indices: Any, classes: Dim, dtype: Any = "float32") -> Tensor:
    """1 at each index, 0 elsewhere, along a new last axis of size `classes`. An index out of range is an error at run time."""
    indices = constant(indices)
    if DTYPES[indices.dtype].kind not in ("int", "uint"):
        raise TypeMismatch("one_hot is of integers", [f"not of {indices.type}"])
    (count,) = checked_shape(classes)
    positions = build.iota(shape=(count,), axis=0)
    known = made(
        build.gather(positions, build.from_start(indices.value), axis=0)
    )  # the index itself, whose range is checked
    return made(compose.convert((known.unsqueeze(-1) == made(positions)).value, element_type(dtype)))


# ---- from elsewhere ----------------------------------------------------------------------------------------------------
def asarray(data: Any, dtype: Any = None) -> Tensor:
    """Converts to a tensor: another tensor, numbers and lists, a numpy array (copied), an object with DLPack (not copied)."""
    if is_foreign(data) and not isinstance(data, Base):
        tensor = from_dlpack(data)
        return tensor if dtype is None else tensor.astype(dtype)
    return constant(data, dtype)


def broadcast_tensors(*tensors: Operand | Sequence[Any]) -> list[Tensor]:
    """Tensors broadcast to their common shape."""
    given = [constant(t) for t in tensors]
    try:
        shape = broadcast_shapes(*(t.type.shape for t in given))
    except ValueError as error:
        raise TypeMismatch("these tensors do not broadcast", [str(error)]) from None
    return [t.broadcast_to(*shape) for t in given]


# ---- windows -----------------------------------------------------------------------------------------------------------
WINDOWS = {"hann": (0.5, -0.5), "hamming": (0.54, -0.46), "blackman": (0.42, -0.5, 0.08)}
"""A window is the sum over i of coefficient i times cos(2 pi i n / N)."""


def window(name: str, size: Dim, periodic: bool, dtype: str) -> Tensor:
    """The vector [size] of a row of WINDOWS, with N = size if periodic, else size - 1."""
    (count,) = checked_shape(size)
    period = count if periodic else count - 1
    n = made(build.iota(shape=(count,), axis=0, dtype="float64"))
    turn = n * (2 * math.pi) / made(compose.dim_value(period, "float64")).maximum(1.0)
    parts = [c * (turn * float(i)).cos() for i, c in enumerate(WINDOWS[name]) if i]
    whole = parts[0] + WINDOWS[name][0]
    for part in parts[1:]:
        whole = whole + part
    if not periodic:  # a window of one element is 1
        whole = made(build.broadcast_to((made(compose.dim_value(count)) == 1).value, shape=(count,))).where(1.0, whole)
    return made(compose.convert(whole.value, dtype if dtype in FLOATS else "float32"))
