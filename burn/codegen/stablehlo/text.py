"""StableHLO as text, for sizes that are numbers: `TextBuilder`. It needs neither jaxlib nor any other MLIR."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from burn.codegen.stablehlo.builder import Builder, Convolution, GatherAxes
from burn.codegen.stablehlo.elements import is_float, is_unsigned
from burn.dialect.dims import Dim, evaluate
from burn.dialect.types import DTYPES, numpy_dtype


@dataclass(frozen=True)
class Tensor:
    """A value: its name and its type."""

    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def type(self) -> str:
        return tensor_type(self.shape, self.dtype)


def tensor_type(shape: Sequence[int], dtype: str) -> str:
    return f"tensor<{''.join(f'{d}x' for d in shape)}{DTYPES[dtype].mlir}>"


class TextBuilder(Builder):
    """Collects lines. sizes: the values of symbols."""

    def __init__(self, sizes: Mapping[str, int]) -> None:
        self.sizes = sizes
        self.lines: list[str] = []
        self._numbers = itertools.count()
        self._depth = 2
        # constants of the block being written and of those around it: splats are written once
        self._splats: list[dict[tuple[str, str], Tensor]] = [{}]

    # ---- writing -------------------------------------------------------------------------------------------------------
    def line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    def fresh(self, shape: Sequence[int], dtype: str) -> Tensor:
        return Tensor(f"%{next(self._numbers)}", tuple(shape), dtype)

    def op(self, text: str, shape: Sequence[int], dtype: str) -> Tensor:
        result = self.fresh(shape, dtype)
        self.line(f"{result.name} = {text}")
        return result

    def block(self, write: Callable[[], Sequence[Tensor]]) -> list[Tensor]:
        """The lines of a nested block, with its `stablehlo.return`."""
        self._depth += 1
        self._splats.append({})
        results = list(write())
        self.return_(results, "stablehlo.return")
        self._splats.pop()
        self._depth -= 1
        return results

    def return_(self, results: Sequence[Tensor], op: str) -> None:
        names = ", ".join(r.name for r in results)
        self.line(f"{op} {names} : {', '.join(r.type for r in results)}" if results else op)

    # ---- sizes and types -----------------------------------------------------------------------------------------------
    def size(self, dim: Dim) -> int:
        return dim if isinstance(dim, int) else evaluate(dim, self.sizes)

    def shape_of(self, x: Tensor) -> tuple[int, ...]:
        return x.shape

    def dtype_of(self, x: Tensor) -> str:
        return x.dtype

    # ---- constants -----------------------------------------------------------------------------------------------------
    def full(self, value: float | int | bool | complex, shape: Sequence[int], dtype: str) -> Tensor:
        text = number(value, dtype)
        type_ = tensor_type(shape, dtype)
        known = next((m[text, type_] for m in self._splats if (text, type_) in m), None)
        if known is None:
            known = self.op(f"stablehlo.constant dense<{text}> : {type_}", shape, dtype)
            self._splats[-1][text, type_] = known
        return known

    def dense(self, array: np.ndarray, dtype: str) -> Tensor:
        elements = array.reshape(-1)
        if not elements.size:
            return self.op(f"stablehlo.constant dense<> : {tensor_type(array.shape, dtype)}", array.shape, dtype)
        if elements.size == 1:
            return self.full(_plain(elements[0], dtype), array.shape, dtype)
        return self.op(
            f"stablehlo.constant dense<{elements_text(array, dtype)}> : {tensor_type(array.shape, dtype)}",
            array.shape,
            dtype,
        )

    def iota(self, shape: Sequence[int], axis: int, dtype: str) -> Tensor:
        return self.op(f"stablehlo.iota dim = {axis} : {tensor_type(shape, dtype)}", shape, dtype)

    def size_value(self, size: int, dtype: str = "int64") -> Tensor:
        return self.full(size, (), dtype)

    # ---- elementwise ---------------------------------------------------------------------------------------------------
    def unary(self, op: str, x: Tensor) -> Tensor:
        if op.startswith("chlo."):
            return self.op(f"{op} {x.name} : {x.type} -> {x.type}", x.shape, x.dtype)
        return self.op(f"stablehlo.{op} {x.name} : {x.type}", x.shape, x.dtype)

    def binary(self, op: str, x: Tensor, y: Tensor) -> Tensor:
        assert (x.shape, x.dtype) == (y.shape, y.dtype), (op, x, y)
        return self.op(f"stablehlo.{op} {x.name}, {y.name} : {x.type}", x.shape, x.dtype)

    def compare(self, relation: str, x: Tensor, y: Tensor) -> Tensor:
        assert (x.shape, x.dtype) == (y.shape, y.dtype), (relation, x, y)
        kind = DTYPES[x.dtype].kind
        form = "FLOAT" if kind in ("float", "complex") else "UNSIGNED" if is_unsigned(x.dtype) else "SIGNED"
        result = tensor_type(x.shape, "bool")
        text = f"stablehlo.compare {relation}, {x.name}, {y.name}, {form} : ({x.type}, {y.type}) -> {result}"
        return self.op(text, x.shape, "bool")

    def select(self, condition: Tensor, x: Tensor, y: Tensor) -> Tensor:
        assert (x.shape, x.dtype) == (y.shape, y.dtype), (x, y)
        return self.op(
            f"stablehlo.select {condition.name}, {x.name}, {y.name} : {condition.type}, {x.type}", x.shape, x.dtype
        )

    def convert(self, x: Tensor, dtype: str) -> Tensor:
        if x.dtype == dtype:
            return x
        return self._move("convert", x, x.shape, dtype)

    def bitcast(self, x: Tensor, dtype: str) -> Tensor:
        return x if x.dtype == dtype else self._move("bitcast_convert", x, x.shape, dtype)

    def parts(self, x: Tensor) -> tuple[Tensor, Tensor]:
        dtype = "float32" if x.dtype == "complex64" else "float64"
        return self._move("real", x, x.shape, dtype), self._move("imag", x, x.shape, dtype)

    def complex(self, re: Tensor, im: Tensor) -> Tensor:
        dtype = "complex64" if re.dtype == "float32" else "complex128"
        text = f"stablehlo.complex {re.name}, {im.name} : ({re.type}, {im.type}) -> {tensor_type(re.shape, dtype)}"
        return self.op(text, re.shape, dtype)

    def _move(self, op: str, x: Tensor, shape: Sequence[int], dtype: str, attributes: str = "") -> Tensor:
        text = f"stablehlo.{op} {x.name}{attributes} : ({x.type}) -> {tensor_type(shape, dtype)}"
        return self.op(text, shape, dtype)

    # ---- movement ------------------------------------------------------------------------------------------------------
    def broadcast_in_dim(self, x: Tensor, shape: Sequence[int], axes: Sequence[int]) -> Tensor:
        return self._move("broadcast_in_dim", x, shape, x.dtype, f", dims = {list(axes)}")

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        return x if x.shape == tuple(shape) else self._move("reshape", x, shape, x.dtype)

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        shape = [x.shape[p] for p in permutation]
        return self._move("transpose", x, shape, x.dtype, f", dims = {list(permutation)}")

    def slice(self, x: Tensor, starts: Sequence[int], limits: Sequence[int], strides: Sequence[int]) -> Tensor:
        rows = list(zip(starts, limits, strides, strict=True))
        shape = [max(0, -(-(b - a) // s)) for a, b, s in rows]
        ranges = ", ".join(f"{a}:{b}:{s}" for a, b, s in rows)
        return self._move("slice", x, shape, x.dtype, f" [{ranges}]")

    def reverse(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        return self.op(f"stablehlo.reverse {x.name}, dims = {list(axes)} : {x.type}", x.shape, x.dtype)

    def pad(self, x: Tensor, value: Tensor, low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> Tensor:
        rows = zip(x.shape, low, high, interior, strict=True)
        shape = [a + d + max(d - 1, 0) * i + b for d, a, b, i in rows]
        text = (
            f"stablehlo.pad {x.name}, {value.name}, low = {list(low)}, high = {list(high)}, interior = {list(interior)}"
        )
        return self.op(f"{text} : ({x.type}, {value.type}) -> {tensor_type(shape, x.dtype)}", shape, x.dtype)

    def concat(self, xs: Sequence[Tensor], axis: int) -> Tensor:
        if len(xs) == 1:
            return xs[0]
        shape = list(xs[0].shape)
        shape[axis] = sum(x.shape[axis] for x in xs)
        names, types = ", ".join(x.name for x in xs), ", ".join(x.type for x in xs)
        text = f"stablehlo.concatenate {names}, dim = {axis} : ({types}) -> {tensor_type(shape, xs[0].dtype)}"
        return self.op(text, shape, xs[0].dtype)

    # ---- contractions and reductions -----------------------------------------------------------------------------------
    def dot_general(
        self,
        x: Tensor,
        y: Tensor,
        batch: tuple[Sequence[int], Sequence[int]],
        contract: tuple[Sequence[int], Sequence[int]],
        dtype: str,
    ) -> Tensor:
        left = [d for i, d in enumerate(x.shape) if i not in (*batch[0], *contract[0])]
        right = [d for i, d in enumerate(y.shape) if i not in (*batch[1], *contract[1])]
        shape = [x.shape[i] for i in batch[0]] + left + right
        batching = f"batching_dims = {list(batch[0])} x {list(batch[1])}, " if batch[0] else ""
        text = (
            f"stablehlo.dot_general {x.name}, {y.name}, {batching}contracting_dims = {list(contract[0])} x "
            f"{list(contract[1])}{self._precision(x.dtype)} : ({x.type}, {y.type}) -> {tensor_type(shape, dtype)}"
        )
        return self.op(text, shape, dtype)

    @staticmethod
    def _precision(dtype: str) -> str:
        """float32 is computed as float32, on devices that have faster and coarser forms of it."""
        return ", precision = [HIGHEST, HIGHEST]" if dtype == "float32" else ""

    def convolution(self, x: Tensor, weight: Tensor, form: Convolution, dtype: str) -> Tensor:
        n = len(form.strides)
        axes = ", ".join(map(str, range(n)))
        if form.last:
            numbers = f"[b, {axes}, f]x[{axes}, i, o]->[b, {axes}, f]"
            spatial, kernel, outputs = x.shape[1:-1], weight.shape[:-2], weight.shape[-1]
        else:
            numbers = f"[b, f, {axes}]x[o, i, {axes}]->[b, f, {axes}]"
            spatial, kernel, outputs = x.shape[2:], weight.shape[2:], weight.shape[0]
        rows = zip(spatial, kernel, form.strides, form.pads, form.dilations, strict=True)
        sizes = [max(0, (d + low + high - (k - 1) * t - 1) // s + 1) for d, k, s, (low, high), t in rows]
        shape = [x.shape[0], *sizes, outputs] if form.last else [x.shape[0], outputs, *sizes]
        precision = "HIGHEST" if x.dtype == "float32" else "DEFAULT"
        text = (
            f"stablehlo.convolution({x.name}, {weight.name}) dim_numbers = {numbers}, window = {{stride = "
            f"{list(form.strides)}, pad = {[list(p) for p in form.pads]}, rhs_dilate = {list(form.dilations)}}} "
            f"{{batch_group_count = 1 : i64, feature_group_count = {form.groups} : i64, precision_config = "
            f"[#stablehlo<precision {precision}>, #stablehlo<precision {precision}>]}} "
            f": ({x.type}, {weight.type}) -> {tensor_type(shape, dtype)}"
        )
        return self.op(text, shape, dtype)

    def reduce(self, op: str, x: Tensor, initial: float | int | bool, axes: Sequence[int]) -> Tensor:
        start = self.full(initial, (), x.dtype)
        shape = [d for i, d in enumerate(x.shape) if i not in axes]
        text = (
            f"stablehlo.reduce({x.name} init: {start.name}) applies stablehlo.{op} across dimensions = {list(axes)} : "
            f"({x.type}, {start.type}) -> {tensor_type(shape, x.dtype)}"
        )
        return self.op(text, shape, x.dtype)

    def reduce_window(
        self,
        op: str,
        x: Tensor,
        initial: float | int | bool,
        window: Sequence[int],
        strides: Sequence[int],
        dilations: Sequence[int],
        pads: Sequence[tuple[int, int]],
    ) -> Tensor:
        start = self.full(initial, (), x.dtype)
        rows = zip(x.shape, window, strides, dilations, pads, strict=True)
        shape = [max(0, (low + d + high - (w - 1) * t - 1) // s + 1) for d, w, s, t, (low, high) in rows]
        result = self.fresh(shape, x.dtype)
        padding = f"dense<{[list(p) for p in pads]}> : tensor<{len(pads)}x2xi64>"
        attributes = (
            f"window_dimensions = {_integers(window)}, window_strides = {_integers(strides)}, "
            f"window_dilations = {_integers(dilations)}, padding = {padding}"
        )
        self.line(f'{result.name} = "stablehlo.reduce_window"({x.name}, {start.name}) <{{{attributes}}}> ({{')
        self._combiner(op, x.dtype)
        self.line(f"}}) : ({x.type}, {start.type}) -> {result.type}")
        return result

    def _combiner(self, op: str, dtype: str) -> None:
        a, b = self.fresh((), dtype), self.fresh((), dtype)
        self.line(f"^bb0({a.name}: {a.type}, {b.name}: {b.type}):")
        self.block(lambda: [b if op == "set" else self.binary(op, a, b)])

    def cumulative(self, op: str, x: Tensor, initial: float | int | bool, axis: int, reverse: bool) -> Tensor:
        """In log2(n) steps, each combining elements that are 1, 2, 4 ... apart."""
        size, reach = x.shape[axis], 1
        start = self.full(initial, (), x.dtype)
        none = [0] * len(x.shape)
        while reach < size:
            low, high = list(none), list(none)
            low[axis], high[axis] = (-reach, reach) if reverse else (reach, -reach)
            x = self.binary(op, self.pad(x, start, low, high, none), x)
            reach *= 2
        return x

    # ---- indexed -------------------------------------------------------------------------------------------------------
    def gather(self, x: Tensor, indices: Tensor, axes: GatherAxes, sizes: Sequence[int]) -> Tensor:
        slices = [d for i, d in enumerate(sizes) if i not in axes.collapsed]
        outer, inner = iter(indices.shape[:-1]), iter(slices)
        rank = len(indices.shape) - 1 + len(slices)
        shape = [next(inner) if i in axes.window else next(outer) for i in range(rank)]
        numbers = (
            f"#stablehlo.gather<offset_dims = {list(axes.window)}, collapsed_slice_dims = {list(axes.collapsed)}, "
            f"start_index_map = {list(axes.indexed)}, index_vector_dim = {len(indices.shape) - 1}>"
        )
        attributes = f"dimension_numbers = {numbers}, indices_are_sorted = false, slice_sizes = {_integers(sizes)}"
        types = f"({x.type}, {indices.type}) -> {tensor_type(shape, x.dtype)}"
        return self.op(f'"stablehlo.gather"({x.name}, {indices.name}) <{{{attributes}}}> : {types}', shape, x.dtype)

    def scatter(self, op: str, x: Tensor, indices: Tensor, updates: Tensor, axes: GatherAxes) -> Tensor:
        numbers = (
            f"#stablehlo.scatter<update_window_dims = {list(axes.window)}, inserted_window_dims = {list(axes.collapsed)}, "
            f"scatter_dims_to_operand_dims = {list(axes.indexed)}, index_vector_dim = {len(indices.shape) - 1}>"
        )
        attributes = f"indices_are_sorted = false, scatter_dimension_numbers = {numbers}, unique_indices = false"
        result = self.fresh(x.shape, x.dtype)
        operands = f"{x.name}, {indices.name}, {updates.name}"
        self.line(f'{result.name} = "stablehlo.scatter"({operands}) <{{{attributes}}}> ({{')
        self._combiner(op, x.dtype)
        self.line(f"}}) : ({x.type}, {indices.type}, {updates.type}) -> {x.type}")
        return result

    def update(self, x: Tensor, piece: Tensor, index: Tensor) -> Tensor:
        zero = self.full(0, (), index.dtype)
        starts = [index, *[zero] * (len(x.shape) - 1)]
        names = ", ".join(v.name for v in (x, piece, *starts))
        types = ", ".join(v.type for v in (x, piece, *starts))
        return self.op(f"stablehlo.dynamic_update_slice {names} : ({types}) -> {x.type}", x.shape, x.dtype)

    def sort(self, xs: Sequence[Tensor], axis: int, keys: int = 1) -> list[Tensor]:
        results = [self.fresh(x.shape, x.dtype) for x in xs]
        group = f"%{next(self._numbers)}"
        head = f"{group}:{len(xs)}" if len(xs) > 1 else group
        names, types = ", ".join(x.name for x in xs), ", ".join(x.type for x in xs)
        self.line(f'{head} = "stablehlo.sort"({names}) <{{dimension = {axis} : i64, is_stable = true}}> ({{')
        arguments = [(self.fresh((), x.dtype), self.fresh((), x.dtype)) for x in xs]
        listed = ", ".join(f"{a.name}: {a.type}, {b.name}: {b.type}" for a, b in arguments)
        self.line(f"^bb0({listed}):")
        self.block(lambda: [self._before(arguments[:keys])])
        self.line(f"}}) : ({types}) -> {f'({types})' if len(xs) > 1 else types}")
        return [Tensor(f"{group}#{i}" if len(xs) > 1 else group, r.shape, r.dtype) for i, r in enumerate(results)]

    def _before(self, pairs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """a < b of the first pair, or of the next where the first are equal."""
        (a, b), *others = pairs
        before, behind = self._less(a, b), self._less(b, a) if others else None
        if behind is None:
            return before
        return self.or_(before, self.and_(self.not_(behind), self._before(others)))

    def _less(self, a: Tensor, b: Tensor) -> Tensor:
        less = self.compare("LT", a, b)
        if not is_float(a.dtype):
            return less
        return self.or_(less, self.and_(self.not_(self.is_nan(a)), self.is_nan(b)))

    # ---- control flow --------------------------------------------------------------------------------------------------
    def branch(
        self, condition: Tensor, on_true: Callable[[], Sequence[Tensor]], on_false: Callable[[], Sequence[Tensor]]
    ) -> list[Tensor]:
        group, at = f"%{next(self._numbers)}", len(self.lines)
        self.lines.append("")  # the head, which has the number of results
        results = self.block(on_true)
        self.line("}, {")
        self.block(on_false)
        many = len(results) > 1
        types = ", ".join(r.type for r in results)
        self.line(f"}}) : ({condition.type}) -> {types if len(results) == 1 else f'({types})'}")
        head = (f"{group}:{len(results)} = " if many else f"{group} = ") if results else ""
        self.lines[at] = "  " * self._depth + f'{head}"stablehlo.if"({condition.name}) ({{'
        return [Tensor(f"{group}#{i}" if many else group, r.shape, r.dtype) for i, r in enumerate(results)]

    def loop(
        self,
        going: Callable[[Sequence[Tensor]], Tensor],
        body: Callable[[Sequence[Tensor]], Sequence[Tensor]],
        carried: Sequence[Tensor],
        trips: int | None = None,
    ) -> list[Tensor]:
        group = f"%{next(self._numbers)}"
        many = len(carried) > 1
        types = ", ".join(c.type for c in carried)
        head = f"{group}:{len(carried)}" if many else group
        self.line(f'{head} = "stablehlo.while"({", ".join(c.name for c in carried)}) ({{')
        for write, between in ((lambda a: [going(a)], "}, {"), (body, "")):
            arguments = [self.fresh(c.shape, c.dtype) for c in carried]
            self.line(f"^bb0({', '.join(f'{a.name}: {a.type}' for a in arguments)}):")
            results = self.block(lambda write=write, arguments=arguments: write(arguments))
            if between:
                self.line(between)
            else:
                assert [r.type for r in results] == [c.type for c in carried], (results, carried)
        self.line(f"}}) : ({types}) -> {f'({types})' if many else types}")
        return [Tensor(f"{group}#{i}" if many else group, c.shape, c.dtype) for i, c in enumerate(carried)]


def _integers(values: Sequence[int]) -> str:
    return f"array<i64: {', '.join(map(str, values))}>" if values else "array<i64>"


# ---- numbers -----------------------------------------------------------------------------------------------------------
def number(value: float | int | bool | complex, dtype: str) -> str:
    """A number as MLIR's text, exactly: special floats by their bits."""
    kind = DTYPES[dtype].kind
    if kind == "bool":
        return "true" if value else "false"
    if kind in ("int", "uint"):
        return str(int(value))  # type: ignore[arg-type]
    if kind == "complex":
        part = "float32" if dtype == "complex64" else "float64"
        value = complex(value)
        return f"({number(value.real, part)}, {number(value.imag, part)})"
    rounded = np.array(value, np.float64).astype(numpy_dtype(dtype))
    as_float = float(rounded)
    if not math.isfinite(as_float):
        return f"0x{rounded.tobytes()[::-1].hex().upper()}"
    text = repr(as_float)
    return text if "e" not in text or "." in text else text.replace("e", ".0e")


def _plain(element: np.generic, dtype: str) -> float | int | bool | complex:
    kind = DTYPES[dtype].kind
    if kind in ("int", "uint"):
        return int(element)
    return bool(element) if kind == "bool" else complex(element) if kind == "complex" else float(element)


def elements_text(array: np.ndarray, dtype: str) -> str:
    """The elements of a constant of two or more: a few as numbers, many as the bytes in memory."""
    if array.size <= 16 or DTYPES[dtype].kind in ("bool", "complex"):
        return _nested(array, dtype)
    return f'"0x{np.ascontiguousarray(array).tobytes().hex().upper()}"'


def _nested(array: np.ndarray, dtype: str) -> str:
    if array.ndim == 0:
        return number(_plain(array.reshape(-1)[0], dtype), dtype)
    return f"[{', '.join(_nested(part, dtype) for part in array)}]"
