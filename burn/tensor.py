"""`Tensor`: a value of the program that is being traced, with the operators that one expects of an array.

    def f(x: burn.Tensor) -> burn.Tensor:
        batch, length = x.shape                    # sizes may be symbolic; arithmetic on them stays symbolic
        return (x - x.mean(-1, keepdims=True)).reshape(batch * length)

Nothing is computed while tracing: an operator adds an op to the program. Operands broadcast as in numpy; a Python number
takes the element type of the tensor beside it. Functions that are no methods are in `burn.ops`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn, TypeAlias

import numpy as np

from burn.dialect import compose, dims
from burn.dialect import ops as build
from burn.dialect.dims import Expr
from burn.dialect.mlir import ir
from burn.dialect.shape import slice_bounds
from burn.dialect.types import DTYPES, TensorType, broadcast_shapes, numpy_dtype, type_of
from burn.dialect.weights import array_weight
from burn.errors import TypeMismatch
from burn.importers.trace import current

Size: TypeAlias = "int | Expr"
Operand: TypeAlias = "Tensor | bool | int | float | Expr | np.ndarray"


class Dim:
    """`Dim("batch")`: a size with a name, for the shape of an input. Expressions over sizes come of arithmetic on them,
    `Dim.min` and `Dim.max`."""

    def __new__(cls, name: str) -> Any:
        try:
            return dims.parse(name)
        except ValueError as error:
            raise TypeMismatch(str(error)) from None

    @staticmethod
    def min(*sizes: Size) -> Size:
        return dims.dim_min(*sizes)

    @staticmethod
    def max(*sizes: Size) -> Size:
        return dims.dim_max(*sizes)


class Tensor:
    """A tensor of the traced program. `shape` holds numbers and symbolic sizes; `dtype` is the element type's name."""

    __slots__ = ("_value",)
    __array_ufunc__ = None  # numpy leaves an operator with a Tensor on its right to the Tensor

    def __init__(self, value: ir.Value) -> None:
        self._value = value

    @property
    def value(self) -> ir.Value:
        return self._value

    @property
    def type(self) -> TensorType:
        return type_of(self.value)

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.type.shape

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def ndim(self) -> int:
        return self.type.rank

    @property
    def size(self) -> Any:
        """How many elements there are."""
        return self.type.elements

    def __repr__(self) -> str:
        return f"Tensor({self.type})"

    # ---- arithmetic --------------------------------------------------------------------------------------------------
    def __add__(self, other: Operand) -> Tensor:
        return _binary("add", self, other)

    def __radd__(self, other: Operand) -> Tensor:
        return _binary("add", other, self)

    def __sub__(self, other: Operand) -> Tensor:
        return _binary("sub", self, other)

    def __rsub__(self, other: Operand) -> Tensor:
        return _binary("sub", other, self)

    def __mul__(self, other: Operand) -> Tensor:
        return _binary("mul", self, other)

    def __rmul__(self, other: Operand) -> Tensor:
        return _binary("mul", other, self)

    def __truediv__(self, other: Operand) -> Tensor:
        return _true_division(self, other)

    def __rtruediv__(self, other: Operand) -> Tensor:
        return _true_division(other, self)

    def __floordiv__(self, other: Operand) -> Tensor:
        return _binary("floordiv", self, other)

    def __rfloordiv__(self, other: Operand) -> Tensor:
        return _binary("floordiv", other, self)

    def __mod__(self, other: Operand) -> Tensor:
        return _binary("mod", self, other)

    def __rmod__(self, other: Operand) -> Tensor:
        return _binary("mod", other, self)

    def __pow__(self, other: Operand) -> Tensor:
        return _binary("pow", self, other)

    def __rpow__(self, other: Operand) -> Tensor:
        return _binary("pow", other, self)

    def __matmul__(self, other: Tensor | np.ndarray) -> Tensor:
        return self.matmul(other)

    def __rmatmul__(self, other: np.ndarray) -> Tensor:
        return lift(other).matmul(self)

    def __neg__(self) -> Tensor:
        return Tensor(build.neg(self.value))

    def __abs__(self) -> Tensor:
        return Tensor(build.abs(self.value))

    def __and__(self, other: Operand) -> Tensor:
        return _binary("and_", self, other)

    def __rand__(self, other: Operand) -> Tensor:
        return _binary("and_", other, self)

    def __or__(self, other: Operand) -> Tensor:
        return _binary("or_", self, other)

    def __ror__(self, other: Operand) -> Tensor:
        return _binary("or_", other, self)

    def __xor__(self, other: Operand) -> Tensor:
        return _binary("xor", self, other)

    def __rxor__(self, other: Operand) -> Tensor:
        return _binary("xor", other, self)

    def __invert__(self) -> Tensor:
        return Tensor(build.not_(self.value))

    # ---- comparison --------------------------------------------------------------------------------------------------
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> Tensor:  # type: ignore[override]
        return _binary("eq", self, other)

    def __ne__(self, other: object) -> Tensor:  # type: ignore[override]
        return _binary("ne", self, other)

    def __lt__(self, other: Operand) -> Tensor:
        return _binary("lt", self, other)

    def __le__(self, other: Operand) -> Tensor:
        return _binary("le", self, other)

    def __gt__(self, other: Operand) -> Tensor:
        return _binary("gt", self, other)

    def __ge__(self, other: Operand) -> Tensor:
        return _binary("ge", self, other)

    # ---- what a traced tensor cannot be ------------------------------------------------------------------------------
    def _unknown(self, what: str, instead: str) -> NoReturn:
        text = f"{self!r} has no elements yet: the program that computes it is only being written down. {instead}"
        raise TypeMismatch(f"{what} of a traced tensor", [text])

    def __bool__(self) -> bool:
        self._unknown(
            "truth value", "Use burn.cond for `if`, burn.loop for `while`, burn.ops.select to choose by element"
        )

    def __float__(self) -> float:
        self._unknown("float()", "Keep it a tensor; to convert its elements use .astype")

    def __int__(self) -> int:
        self._unknown("int()", "Keep it a tensor; where a size is wanted use burn.read_dim")

    def __index__(self) -> int:
        self._unknown("use as an index or a size", "To index with it write x[tensor]; for a size use burn.read_dim")

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray:
        self._unknown("numpy array", "Call functions of burn.ops rather than numpy's")

    def __len__(self) -> int:
        length = self.shape[0] if self.ndim else None
        if not isinstance(length, int):
            self._unknown("len()", "Use x.shape[0], which may be symbolic")
        return length

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    # ---- indexing ----------------------------------------------------------------------------------------------------
    def __getitem__(self, index: Any) -> Tensor:
        """numpy's basic indexing (numbers, slices, None, ...), bounds may be symbolic; at most one integer tensor, which
        takes the place of its axis by its own axes."""
        items = _full_index(self.ndim, index if isinstance(index, tuple) else (index,))
        starts, sizes, steps, kept, gathered = [], [], [], [], None
        axis = 0
        for item in items:
            if item is None:
                kept.append(1)
                continue
            dim = self.shape[axis]
            if isinstance(item, slice):
                step = 1 if item.step is None else item.step
                start, size = slice_bounds(dim, item.start, item.stop, step)
                kept.append(size)
            elif isinstance(item, Tensor):
                start, size, step = 0, dim, 1
                gathered = (len(kept), item)
                kept.append(dim)
            elif isinstance(item, (int, Expr)) and not isinstance(item, bool):
                start, size, step = (item if not isinstance(item, int) or item >= 0 else dim + item), 1, 1
            else:
                raise TypeMismatch("a tensor cannot be indexed so", [f"with a {type(item).__name__}"])
            starts.append(start)
            sizes.append(size)
            steps.append(step)
            axis += 1
        x = self.value
        if any(starts) or tuple(sizes) != self.shape or set(steps) > {1}:
            x = build.slice(x, starts=tuple(starts), sizes=tuple(sizes), steps=tuple(steps))
        x = compose.reshape(x, tuple(kept))
        if gathered is not None:
            x = build.gather(x, gathered[1].value, axis=gathered[0])
        return Tensor(x)

    def take(self, indices: Tensor | np.ndarray | int, axis: int = 0) -> Tensor:
        """Slices along an axis at the given places (burn.ops.gather); a number takes the axis away."""
        return Tensor(build.gather(self.value, lift(indices, "int64").value, axis=self._axis(axis)))

    # ---- shapes ------------------------------------------------------------------------------------------------------
    def reshape(self, *shape: Any) -> Tensor:
        """The same elements in row-major order; one size may be -1."""
        wanted = _sequence(shape)
        if -1 in wanted:
            known = dims.product(d for d in wanted if d != -1)
            rest = dims.exact_div(self.size, known) if known != 0 else None
            if rest is None or wanted.count(-1) > 1:
                raise TypeMismatch("cannot reshape", [f"{self!r} to [{', '.join(map(str, wanted))}]"])
            wanted = tuple(rest if d == -1 else d for d in wanted)
        return Tensor(compose.reshape(self.value, wanted))

    def flatten(self, start: int = 0, end: int = -1) -> Tensor:
        """Axes start to end, inclusive, as one."""
        first, last = self._axis(start), self._axis(end)
        return self.reshape(*self.shape[:first], dims.product(self.shape[first : last + 1]), *self.shape[last + 1 :])

    def squeeze(self, *axes: int) -> Tensor:
        """Without these axes of size 1."""
        gone = {self._axis(a) for a in axes}
        return self.reshape(*(d for i, d in enumerate(self.shape) if i not in gone))

    def unsqueeze(self, axis: int) -> Tensor:
        """With a new axis of size 1."""
        place = axis if axis >= 0 else self.ndim + 1 + axis
        return self.reshape(*self.shape[:place], 1, *self.shape[place:])

    def permute(self, *axes: Any) -> Tensor:
        """Result axis i is axis axes[i]."""
        return Tensor(compose.transpose(self.value, tuple(self._axis(a) for a in _sequence(axes))))

    def transpose(self, first: int, second: int) -> Tensor:
        """Two axes exchanged."""
        order = list(range(self.ndim))
        a, b = self._axis(first), self._axis(second)
        order[a], order[b] = order[b], order[a]
        return self.permute(order)

    @property
    def T(self) -> Tensor:
        """A matrix, transposed."""
        if self.ndim != 2:
            raise TypeMismatch("T is of matrices", [f"not of {self!r}; use transpose or permute"])
        return self.permute(1, 0)

    def broadcast_to(self, *shape: Any) -> Tensor:
        return Tensor(compose.broadcast_to(self.value, _sequence(shape)))

    def astype(self, dtype: str) -> Tensor:
        """Elements converted; see burn.ops.cast."""
        return Tensor(compose.convert(self.value, dtype))

    # ---- reductions --------------------------------------------------------------------------------------------------
    def sum(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("sum", axis, keepdims)

    def prod(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("prod", axis, keepdims)

    def max(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("max", axis, keepdims)

    def min(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("min", axis, keepdims)

    def any(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("any", axis, keepdims)

    def all(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        return self._reduce("all", axis, keepdims)

    def mean(self, axis: int | Sequence[int] | None = None, keepdims: bool = False) -> Tensor:
        """The mean in the tensor's own element type."""
        return Tensor(compose.mean(self.value, self._axes(axis), keepdims))

    def argmax(self, axis: int, keepdims: bool = False) -> Tensor:
        return Tensor(build.arg_reduce(self.value, kind="max", axis=self._axis(axis), keepdims=keepdims))

    def argmin(self, axis: int, keepdims: bool = False) -> Tensor:
        return Tensor(build.arg_reduce(self.value, kind="min", axis=self._axis(axis), keepdims=keepdims))

    def softmax(self, axis: int = -1) -> Tensor:
        return Tensor(build.softmax(self.value, axis=self._axis(axis)))

    def _reduce(self, kind: str, axis: int | Sequence[int] | None, keepdims: bool) -> Tensor:
        return Tensor(build.reduce(self.value, kind=kind, axes=self._axes(axis), keepdims=keepdims))

    # ---- products ----------------------------------------------------------------------------------------------------
    def matmul(self, other: Tensor | np.ndarray) -> Tensor:
        """numpy's matmul: the last two axes are matrices, a vector gets an axis of its own, the others broadcast."""
        left, right = self, lift(other)
        a, b = left.type, right.type
        if not a.rank or not b.rank:
            raise TypeMismatch("matmul takes vectors and matrices", [f"not {a} and {b}"])
        if b.rank <= 2:
            contract = {"lhs_contract": (a.rank - 1,), "rhs_contract": (max(b.rank - 2, 0),)}
            return Tensor(build.dot_general(left.value, right.value, **contract))
        if a.rank == 1:
            return left.unsqueeze(0).matmul(right).squeeze(-2)
        try:
            batch = broadcast_shapes(a.shape[:-2], b.shape[:-2])
        except ValueError as error:
            raise TypeMismatch("cannot multiply", [str(error)]) from None
        n = len(batch)
        axes = {
            "lhs_batch": tuple(range(n)),
            "rhs_batch": tuple(range(n)),
            "lhs_contract": (n + 1,),
            "rhs_contract": (n,),
        }
        left, right = left.broadcast_to(*batch, *a.shape[-2:]), right.broadcast_to(*batch, *b.shape[-2:])
        return Tensor(build.dot_general(left.value, right.value, **axes))

    # ---- axes --------------------------------------------------------------------------------------------------------
    def _axis(self, axis: int) -> int:
        if not -self.ndim <= axis < max(self.ndim, 1):
            raise TypeMismatch(f"axis {axis} is out of range", [f"for {self!r}"])
        return axis % self.ndim if self.ndim else 0

    def _axes(self, axis: int | Sequence[int] | None) -> tuple[int, ...]:
        if axis is None:
            return tuple(range(self.ndim))
        return tuple(self._axis(a) for a in ((axis,) if isinstance(axis, int) else axis))


def constant(elements: Any, dtype: str | None = None) -> Tensor:
    """A constant of the traced program: numbers, nested lists of them, an array, or a symbolic size.

    Without `dtype` Python floats are float32, integers int64, and arrays keep their own type."""
    if isinstance(elements, Tensor):
        return elements if dtype is None else elements.astype(dtype)
    if isinstance(elements, Expr):
        current()
        return Tensor(compose.dim_value(elements, dtype or "int64"))
    array = np.asarray(elements)
    if dtype is None and not isinstance(elements, (np.ndarray, np.generic)) and array.dtype == np.float64:
        dtype = "float32"
    if dtype is not None:
        if dtype not in DTYPES:
            raise TypeMismatch(f"there is no element type '{dtype}'")
        array = array.astype(numpy_dtype(dtype))
    return Tensor(current().literal(array_weight(array)))


def rounded(value: Any, dtype: str) -> Any:
    """A Python number as an element of the type holds it: passes reckon with what is written in the program."""
    return float(numpy_dtype(dtype).type(value)) if DTYPES[dtype].kind == "float" else value


def lift(operand: Any, like: str | None = None) -> Tensor:
    """An operand as a tensor; a Python number or a size takes the element type `like`."""
    if isinstance(operand, Tensor):
        return operand
    if isinstance(operand, (np.ndarray, np.generic)):
        return constant(operand)
    if like is None and isinstance(operand, (bool, int, float, Expr)):
        raise TypeMismatch("the element type of a number is not known here", [f"write burn.constant({operand}, dtype)"])
    if isinstance(operand, Expr):
        return Tensor(compose.dim_value(operand, like or "int64"))
    if isinstance(operand, (bool, int, float)):
        assert like is not None
        kind = DTYPES[like].kind
        if (kind == "bool") != isinstance(operand, bool) or (kind in ("int", "uint") and int(operand) != operand):
            raise TypeMismatch(f"{operand!r} is no {like}", ["a number takes the element type of the tensor beside it"])
        return Tensor(compose.number(rounded(operand, like), like))
    raise TypeMismatch(
        f"a {type(operand).__name__} is no operand of a tensor", ["operands are tensors, numbers and arrays"]
    )


def _binary(name: str, left: Any, right: Any) -> Tensor:
    like = (left if isinstance(left, Tensor) else right).dtype
    return Tensor(getattr(build, name)(lift(left, like).value, lift(right, like).value))


def _true_division(left: Any, right: Any) -> Tensor:
    dtype = (left if isinstance(left, Tensor) else right).dtype
    if DTYPES[dtype].kind not in ("float", "complex"):
        hint = "use // to round down, burn.ops.div to truncate, or .astype first"
        raise TypeMismatch(f"/ is not of {dtype} tensors", [hint])
    return _binary("div", left, right)


def _sequence(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """f(1, 2) and f((1, 2)) alike."""
    return tuple(values[0]) if len(values) == 1 and isinstance(values[0], (tuple, list)) else values


def _full_index(rank: int, index: tuple[Any, ...]) -> list[Any]:
    """An index with one entry for each axis (and None for new axes)."""
    taken = sum(1 for item in index if item is not None and item is not Ellipsis)
    dots = [i for i, item in enumerate(index) if item is Ellipsis]
    if taken > rank or len(dots) > 1 or sum(isinstance(item, Tensor) for item in index) > 1:
        raise TypeMismatch("a tensor cannot be indexed so", [f"{len(index)} entries for {rank} axes"])
    rest = [slice(None)] * (rank - taken)
    if not dots:
        return [*index, *rest]
    return [*index[: dots[0]], *rest, *index[dots[0] + 1 :]]
