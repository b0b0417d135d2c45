"""A program's meaning, in numpy: each primitive evaluated as its docstring says. Enter at `evaluate`.

For tests of importers and passes: what they build is checked without a code generator, and a code generator can be
checked against it. Composites are decomposed first. Nothing here is fast.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from burn.dialect.control import region_symbols
from burn.dialect.dims import Dim, Expr, decide
from burn.dialect.dims import evaluate as evaluate_dim
from burn.dialect.mlir import context, ir
from burn.dialect.program import Program
from burn.dialect.types import DTYPES, numpy_dtype, type_of

Array = np.ndarray


def evaluate(program: Program, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """The program's outputs for the given inputs."""
    machine = Machine(program)
    for name, value in zip(program.input_names, program.inputs, strict=True):
        array = np.asarray(inputs[name])
        machine.bind_shape(type_of(value).shape, array.shape)
        machine.values[value] = array
    with context(), np.errstate(all="ignore"):
        results = machine.run(program.block)
    return dict(zip(program.output_names, results, strict=True))


class Machine:
    """Values by SSA value, sizes by name."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: dict[ir.Value, Array] = {}
        self.sizes: dict[str, int] = {}

    def bind_shape(self, shape: tuple[Dim, ...], actual: tuple[int, ...]) -> None:
        assert len(shape) == len(actual), f"rank of {shape} is not that of {actual}"
        for dim, size in zip(shape, actual, strict=True):
            if isinstance(dim, Expr) and dim.is_symbol:
                name = str(dim)
                assert self.sizes.setdefault(name, size) == size, f"{name} is {self.sizes[name]} and {size}"
            elif isinstance(dim, int):
                assert dim == size, f"size {size} is not {dim}"

    def forget(self, symbols: set[str]) -> None:
        """Sizes that are about to be defined again."""
        for name in symbols:
            self.sizes.pop(name, None)

    def dims(self, dims: tuple[Dim, ...]) -> tuple[int, ...]:
        return tuple(self.dim(d) for d in dims)

    def dim(self, dim: Dim) -> int:
        return evaluate_dim(dim, self.sizes)

    def run(self, block: ir.Block) -> list[Array]:
        for operation in list(block.operations):
            op: Any = operation.opview if isinstance(operation, ir.Operation) else operation
            if op.OP_NAME in ("return", "yield"):
                return [self.values[v] for v in op.operation.operands]
            results = self.apply(op)
            for value, result in zip(op.operation.results, results, strict=True):
                type_ = type_of(value)
                result = np.asarray(result)
                if type_.dtype != "string" and result.dtype != numpy_dtype(type_.dtype):
                    result = result.astype(numpy_dtype(type_.dtype))
                self.bind_shape(type_.shape, result.shape)
                want = self.dims(type_.shape)
                assert result.shape == want, f"{op.OP_NAME} gives {result.shape}, its type says {type_} = {want}"
                self.values[value] = result
        raise AssertionError("the block has no end")

    def apply(self, op: Any) -> list[Array]:
        args = [self.value_of(a) for a in op.args]
        if op.OP_NAME in STRUCTURED:
            return STRUCTURED[op.OP_NAME](self, op, *args)
        if type(op).decompose is not None:
            return self.decomposed(op)
        if op.OP_NAME not in OPS:
            raise NotImplementedError(f"burn.{op.OP_NAME} has no reference")
        result = OPS[op.OP_NAME](self, op, *args)
        return list(result) if isinstance(result, (list, tuple)) else [result]

    def value_of(self, argument: Any) -> Any:
        if isinstance(argument, list):
            return [self.values[v] for v in argument]
        return None if argument is None else self.values[argument]

    def decomposed(self, op: Any) -> list[Array]:
        """Builds the decomposition into a block of its own and evaluates that."""
        with ir.Location.name(op.OP_NAME):
            module = ir.Module.create()
            from burn.dialect import ops
            from burn.dialect.mlir import func

            with ir.InsertionPoint(module.body):
                operands = list(op.operation.operands)
                function = func.FuncOp("part", ([v.type for v in operands], []))
                block = function.add_entry_block()
            inner = dict(zip(operands, block.arguments, strict=True))
            mapped = [
                [inner[v] for v in a] if isinstance(a, list) else None if a is None else inner[a] for a in op.args
            ]
            with ir.InsertionPoint(block):
                result = type(op).decompose(*mapped, **op.attrs)
                ops.return_(list(result) if isinstance(result, (list, tuple)) else [result])
        for outer, argument in zip(operands, block.arguments, strict=True):
            self.values[argument] = self.values[outer]
        return self.run(block)


def _wide(x: Array) -> Array:
    """16-bit floats are computed in float32 and rounded once."""
    return x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iub" else x


def _div(a: Array, b: Array) -> Array:
    if a.dtype.kind not in "iu":
        return a / b
    safe = np.where(b == 0, 1, b)
    quotient = (
        np.abs(a.astype(object)) // np.abs(safe.astype(object))
        if a.dtype.itemsize == 8
        else np.abs(a.astype(np.int64)) // np.abs(safe.astype(np.int64))
    )
    signed = np.where((a < 0) != (b < 0), -quotient, quotient)
    return np.where(b == 0, 0, signed).astype(a.dtype)


def _shift(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    def shifted(a: Array, b: Array) -> Array:
        unsigned = a.view(f"u{a.dtype.itemsize}")
        bits = a.dtype.itemsize * 8
        by = b.view(f"u{b.dtype.itemsize}")
        return (
            np.where(by >= bits, 0, function(unsigned, np.minimum(by, bits - 1).astype(unsigned.dtype)))
            .astype(unsigned.dtype)
            .view(a.dtype)
        )

    return shifted


POINTWISE: dict[str, Callable[..., Any]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _div,
    "floordiv": np.floor_divide,
    "fmod": np.fmod,
    "mod": np.mod,
    "pow": lambda a, b: np.power(a, b) if a.dtype.kind != "i" else np.power(a.astype(np.float64), b).astype(a.dtype),
    "min": np.minimum,
    "max": np.maximum,
    "atan2": np.arctan2,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shift_left": _shift(np.left_shift),
    "shift_right": _shift(np.right_shift),
    "not": np.invert,
    "neg": np.negative,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
    "trunc": np.trunc,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erf": np.vectorize(math.erf, otypes=[np.float64]),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "isnan": np.isnan,
    "isinf": np.isinf,
}


def _pointwise(function: Callable[..., Any]) -> Callable[..., Array]:
    return lambda machine, op, *args: function(*map(_wide, args))


def _constant(machine: Machine, op: Any) -> Array:
    dtype, shape = numpy_dtype(op.dtype), machine.dims(op.shape)
    if op.bits is not None:
        return np.array([v % 2**64 for v in op.bits], np.uint64).astype(dtype).reshape(shape)
    return np.array(op.values, np.float64).astype(dtype).reshape(shape)


def _full(machine: Machine, op: Any) -> Array:
    value = np.float64(op.value) if op.bits is None else np.uint64(op.bits % 2**64)
    return np.full(machine.dims(op.shape), value.astype(numpy_dtype(op.dtype)))


def _weight(machine: Machine, op: Any) -> Array:
    return machine.program.weights.get(op.key)


def _iota(machine: Machine, op: Any) -> Array:
    shape = machine.dims(op.shape)
    along = [1] * len(shape)
    along[op.axis] = shape[op.axis]
    counted = np.arange(shape[op.axis], dtype=np.int64).astype(numpy_dtype(op.dtype))
    return np.broadcast_to(counted.reshape(along), shape)


def _dim_values(machine: Machine, op: Any) -> Array:
    values = np.array(machine.dims(op.dims), np.int64)
    return values.reshape(()) if op.scalar else values


def _read_dim(machine: Machine, op: Any, x: Array) -> list[Array]:
    value = int(x.reshape(-1)[op.position])
    assert value >= op.minimum, f"{op.symbol} = {value} is below {op.minimum}"
    machine.sizes[op.symbol] = value
    return []


def _check_size(machine: Machine, op: Any) -> list[Array]:
    size, bound = machine.dims((op.size, op.bound))
    assert decide(size, op.relation, bound), f"{op.size} {op.relation} {op.bound} does not hold"
    return []


def _cast(machine: Machine, op: Any, x: Array) -> Array:
    target = DTYPES[op.dtype]
    if op.dtype == "float8_e8m0fnu":  # powers of two, rounded up; nothing is below 2^-127
        wide = x.astype(np.float64)
        power = np.clip(np.ceil(np.log2(np.abs(wide))), -127, 127)
        return np.where(np.isnan(wide), np.nan, np.exp2(power)).astype(numpy_dtype(op.dtype))
    if target.kind == "small":
        wide = x.astype(np.float32)
        rounded = wide.astype(numpy_dtype(op.dtype))
        if op.saturate:
            import ml_dtypes

            top = float(ml_dtypes.finfo(numpy_dtype(op.dtype)).max)
            rounded = np.where(np.isnan(wide), wide, np.clip(wide, -top, top)).astype(numpy_dtype(op.dtype))
        return rounded
    if target.kind == "bool":
        return x.astype(np.float32) != 0 if _kind(x) == "small" else x != 0
    return x.astype(numpy_dtype(op.dtype))


def _kind(x: Array) -> str:
    from burn.dialect.types import dtype_of_numpy

    return DTYPES[dtype_of_numpy(x.dtype)].kind


def _slice(machine: Machine, op: Any, x: Array) -> Array:
    for axis, (start, size, step) in enumerate(
        zip(machine.dims(op.starts), machine.dims(op.sizes), op.steps, strict=True)
    ):
        selected = start + step * np.arange(size)
        assert size == 0 or (selected.min() >= 0 and selected.max() < x.shape[axis]), (
            f"axis {axis}: {selected} of {x.shape}"
        )
        x = np.take(x, selected, axis=axis)
    return x


def _pad(machine: Machine, op: Any, x: Array, value: Array) -> Array:
    low, high = machine.dims(op.low), machine.dims(op.high)
    assert min((*low, *high), default=0) >= 0
    interior = op.interior or (0,) * x.ndim
    shape = [a + d + max(d - 1, 0) * i + b for a, d, i, b in zip(low, x.shape, interior, high, strict=True)]
    result = np.full(shape, value)
    where = tuple(slice(a, a + max(d + (d - 1) * i, 0), i + 1) for a, d, i in zip(low, x.shape, interior, strict=True))
    result[where] = x
    return result


KINDS: dict[str, np.ufunc] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "any": np.logical_or,
    "all": np.logical_and,
}


def _identity(kind: str, dtype: np.dtype) -> Any:
    if kind in ("sum", "any"):
        return 0
    if kind in ("prod", "all"):
        return 1
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max
    return -np.inf if kind == "max" else np.inf


def _reduce(machine: Machine, op: Any, x: Array) -> Array:
    x = _wide(x)
    axes = tuple(a % x.ndim for a in op.axes)
    if not axes:
        return x
    if _kind(x) == "complex":
        return np.sum(x, axis=axes, keepdims=op.keepdims)
    initial = np.asarray(_identity(op.kind, x.dtype)).astype(x.dtype)
    return KINDS[op.kind].reduce(x, axis=axes, keepdims=op.keepdims, initial=initial, dtype=x.dtype)


def _arg_reduce(machine: Machine, op: Any, x: Array) -> Array:
    x = _wide(x)
    best = np.argmax if op.kind == "max" else np.argmin
    if op.last:
        index = x.shape[op.axis] - 1 - best(np.flip(x, op.axis), axis=op.axis)
    else:
        index = best(x, axis=op.axis)
    return np.expand_dims(index, op.axis % x.ndim) if op.keepdims else np.asarray(index)


def _cumulative(machine: Machine, op: Any, x: Array) -> Array:
    axis = op.axis % x.ndim
    y = np.flip(_wide(x), axis) if op.reverse else _wide(x)
    result = KINDS[op.kind].accumulate(y, axis=axis, dtype=y.dtype)
    if op.exclusive:
        first = np.full_like(np.take(result, [0], axis=axis), _identity(op.kind, y.dtype))
        result = np.concatenate([first, np.delete(result, -1, axis=axis)], axis=axis)
    return np.flip(result, axis) if op.reverse else result


def _window_reduce(machine: Machine, op: Any, x: Array) -> Array:
    low, high = machine.dims(op.low), machine.dims(op.high)
    identity = np.asarray(_identity(op.kind, x.dtype)).astype(x.dtype)
    padded = np.pad(_wide(x), list(zip(low, high, strict=True)), constant_values=identity)
    sizes = [
        max(0, (d - ((k - 1) * t + 1)) // s + 1)
        for d, k, s, t in zip(padded.shape, op.window, op.strides, op.dilations, strict=True)
    ]
    result = np.full(sizes, identity, padded.dtype)
    for offset in itertools.product(*map(range, op.window)):
        where = tuple(
            slice(o * t, o * t + (n - 1) * s + 1, s)
            for o, t, n, s in zip(offset, op.dilations, sizes, op.strides, strict=True)
        )
        result = KINDS[op.kind](result, padded[where])
    return result


def _checked(indices: Array, size: int) -> Array:
    indices = indices.astype(np.int64)
    assert indices.size == 0 or (-size <= indices.min() and indices.max() < size), f"index out of range of {size}"
    return np.where(indices < 0, indices + size, indices)


def _gather(machine: Machine, op: Any, x: Array, indices: Array) -> Array:
    return np.take(x, _checked(indices, x.shape[op.axis]), axis=op.axis)


def _element_indices(x: Array, indices: Array, axis: int) -> tuple[Array, ...]:
    grid: list[Any] = list(np.indices(indices.shape))
    grid[axis] = _checked(indices, x.shape[axis])
    return tuple(grid)


def _gather_elements(machine: Machine, op: Any, x: Array, indices: Array) -> Array:
    return x[_element_indices(x, indices, op.axis % x.ndim)]


def _gather_nd(machine: Machine, op: Any, x: Array, indices: Array) -> Array:
    b, depth = op.batch_dims, indices.shape[-1]
    batch = x.shape[:b]
    flat = x.reshape(-1, *x.shape[b:])
    selected = indices.reshape(flat.shape[0], -1, depth)
    parts = [
        part[tuple(_checked(p[..., k], part.shape[k]) for k in range(depth))] if depth else np.stack([part] * len(p))
        for part, p in zip(flat, selected, strict=True)
    ]
    result = np.stack(parts) if parts else np.empty((0,), x.dtype)
    return result.reshape(*batch, *indices.shape[b:-1], *x.shape[b + depth :])


UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "none": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _scatter_elements(machine: Machine, op: Any, x: Array, indices: Array, updates: Array) -> Array:
    result = x.copy()
    combine = UPDATES[op.reduction]
    selected = _element_indices(x, indices, op.axis % x.ndim)
    for at in np.ndindex(indices.shape):
        where = tuple(p[at] for p in selected)
        result[where] = combine(result[where], updates[at])
    return result


def _scatter_nd(machine: Machine, op: Any, x: Array, indices: Array, updates: Array) -> Array:
    result = x.copy()
    combine = UPDATES[op.reduction]
    for at in np.ndindex(indices.shape[:-1]):
        where = tuple(int(_checked(indices[(*at, k)], x.shape[k])) for k in range(indices.shape[-1]))
        result[where] = combine(result[where], updates[at])
    return result


def _dot_general(machine: Machine, op: Any, lhs: Array, rhs: Array) -> Array:
    if op.dtype is not None:
        lhs, rhs = lhs.astype(numpy_dtype(op.dtype)), rhs.astype(numpy_dtype(op.dtype))
    lhs, rhs = _wide(lhs), _wide(rhs)
    letters = itertools.count()
    left, right = [next(letters) for _ in range(lhs.ndim)], [next(letters) for _ in range(rhs.ndim)]
    for a, b in (*zip(op.lhs_batch, op.rhs_batch, strict=True), *zip(op.lhs_contract, op.rhs_contract, strict=True)):
        right[b] = left[a]
    batch = [left[a] for a in op.lhs_batch]
    rest = [left[i] for i in range(lhs.ndim) if i not in (*op.lhs_batch, *op.lhs_contract)]
    rest += [right[i] for i in range(rhs.ndim) if i not in (*op.rhs_batch, *op.rhs_contract)]
    return np.asarray(np.einsum(lhs, left, rhs, right, [*batch, *rest], optimize=True))


def _conv(machine: Machine, op: Any, x: Array, weight: Array) -> Array:
    if op.dtype is not None:
        x, weight = x.astype(numpy_dtype(op.dtype)), weight.astype(numpy_dtype(op.dtype))
    x, weight = _wide(x), _wide(weight)
    if op.layout == "last":
        x = np.moveaxis(x, -1, 1)
        weight = np.moveaxis(weight, (-1, -2), (0, 1))
    x = np.pad(x, [(0, 0), (0, 0), *zip(machine.dims(op.low), machine.dims(op.high), strict=True)])
    kernel = weight.shape[2:]
    sizes = [
        max(0, (d - (k - 1) * t - 1) // s + 1)
        for d, k, s, t in zip(x.shape[2:], kernel, op.strides, op.dilations, strict=True)
    ]
    groups = op.groups
    parts = x.reshape(x.shape[0], groups, -1, *x.shape[2:])
    filters = weight.reshape(groups, -1, *weight.shape[1:])
    result = np.zeros((x.shape[0], groups, filters.shape[1], *sizes), x.dtype)
    for offset in itertools.product(*map(range, kernel)):
        where = tuple(
            slice(o * t, o * t + (m - 1) * s + 1, s)
            for o, t, m, s in zip(offset, op.dilations, sizes, op.strides, strict=True)
        )
        result += np.einsum("ngc...,goc->ngo...", parts[(..., *where)], filters[(..., *offset)], optimize=True)
    result = result.reshape(x.shape[0], -1, *sizes)
    return np.moveaxis(result, 1, -1) if op.layout == "last" else result


def _sort(machine: Machine, op: Any, x: Array) -> tuple[Array, Array]:
    axis = op.axis % x.ndim
    keys = _wide(x)
    if op.descending:
        order = np.flip(np.argsort(np.flip(keys, axis), axis=axis, kind="stable"), axis)
        order = keys.shape[axis] - 1 - order
    else:
        order = np.argsort(keys, axis=axis, kind="stable")
    return np.take_along_axis(x, order, axis=axis), order


def _nonzero(machine: Machine, op: Any, x: Array) -> Array:
    selected = np.array(np.nonzero(np.atleast_1d(x)), np.int64)
    machine.sizes[op.count] = selected.shape[1]
    return selected


def _unique(machine: Machine, op: Any, x: Array) -> list[Array]:
    values, first, inverse, counts = np.unique(
        x, return_index=True, return_inverse=True, return_counts=True, axis=op.axis
    )
    inverse = inverse.reshape(-1)
    if not op.sorted:
        order = np.argsort(first)
        rank = np.argsort(order)
        values = np.take(values, order, axis=0 if op.axis is None else op.axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    machine.sizes[op.count] = len(first)
    return [values, first, inverse, counts]


OPS: dict[str, Callable[..., Any]] = {
    **{name: _pointwise(function) for name, function in POINTWISE.items()},
    "select": lambda m, op, c, a, b: np.where(c, a, b),
    "cast": _cast,
    "bitcast": lambda m, op, x: x.view(numpy_dtype(op.dtype)),
    "constant": _constant,
    "full": _full,
    "weight": _weight,
    "iota": _iota,
    "dim_values": _dim_values,
    "read_dim": _read_dim,
    "check_size": _check_size,
    "broadcast_to": lambda m, op, x: np.broadcast_to(x, m.dims(op.shape)),
    "reshape": lambda m, op, x: x.reshape(m.dims(op.shape)),
    "transpose": lambda m, op, x: x.transpose(op.permutation),
    "slice": _slice,
    "pad": _pad,
    "concat": lambda m, op, xs: np.concatenate(xs, axis=op.axis),
    "reduce": _reduce,
    "arg_reduce": _arg_reduce,
    "cumulative": _cumulative,
    "window_reduce": _window_reduce,
    "gather": _gather,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "scatter_elements": _scatter_elements,
    "scatter_nd": _scatter_nd,
    "dot_general": _dot_general,
    "conv": _conv,
    "sort": _sort,
    "nonzero": _nonzero,
    "unique": _unique,
}


def _if(machine: Machine, op: Any, condition: Array) -> list[Array]:
    machine.forget({*op.symbols, *region_symbols(op.operation.regions[0]), *region_symbols(op.operation.regions[1])})
    return machine.run(op.operation.regions[0 if bool(condition) else 1].blocks[0])


def _loop(machine: Machine, op: Any, trips: Array | None, condition: Array | None, carried: list[Array]) -> list[Array]:
    body = op.operation.regions[0]
    block = body.blocks[0]
    going = condition is None or bool(condition)
    slices: list[list[Array]] = [[] for _ in range(op.scans)]
    iteration = 0
    while going and (trips is None or iteration < int(trips)):
        machine.forget({*op.symbols, *region_symbols(body)})
        state = [np.asarray(iteration, np.int64), np.asarray(going), *carried]
        for argument, value in zip(block.arguments, state, strict=True):
            machine.bind_shape(type_of(argument).shape, value.shape)
            machine.values[argument] = value
        flag, *results = machine.run(block)
        going, carried = bool(flag), results[: len(carried)]
        for stack, value in zip(slices, results[len(carried) :], strict=True):
            stack.append(value)
        iteration += 1
    machine.forget({*op.symbols, *region_symbols(body)})
    return [*carried, *(_stack(machine, value, part) for value, part in zip(_scans(op), slices, strict=True))]


def _scans(op: Any) -> list[ir.Value]:
    return list(op.operation.results)[len(op.carried) :]


def _stack(machine: Machine, value: ir.Value, slices: list[Array]) -> Array:
    if slices:
        return np.stack(slices)
    return np.empty((0, *machine.dims(type_of(value).shape[1:])), numpy_dtype(type_of(value).dtype))


STRUCTURED: dict[str, Callable[..., list[Array]]] = {"if": _if, "loop": _loop}
