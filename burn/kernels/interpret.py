"""Interprets a kernel in plain Python, element by element. It defines a kernel's semantics, independent of any printer.

`run` takes a kernel, a flat array for each of its buffers, and the program's sizes. It walks the parallel loops
backwards, so that dependent iterations give wrong results. It accumulates in higher precision than generated code, so
that a comparison bounds the code's rounding errors. It is slow: use it for sizes of a few hundred elements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from burn.dialect.dims import Atom, Call, Dim, Expr, LoopVar, Symbol
from burn.dialect.indexing import FROM_START
from burn.dialect.types import DTYPES, numpy_dtype
from burn.errors import BurnError, unreachable
from burn.kernels import numbers
from burn.kernels.body import (
    REDUCERS,
    Accumulator,
    Apply,
    AttentionGradientKernel,
    AttentionKernel,
    ColumnReduction,
    Const,
    ContractionKernel,
    Convert,
    Fetched,
    Index,
    Kept,
    Kernel,
    Load,
    LoopKernel,
    Reduced,
    Reduction,
    Reinterpret,
    Scalar,
    Stage,
    Where,
    Write,
    identity,
)
from burn.kernels.dropout import is_kept
from burn.kernels.numbers import Number

LN2 = np.log(np.longdouble(2))


class IndexOutOfRange(BurnError):
    """An index read from data is out of its axis' range. site: the source node."""

    def __init__(self, site: str, index: int, extent: int) -> None:
        super().__init__(f"node '{site}': index {index} is out of range for {extent} elements")
        self.site, self.index = site, index


def run(
    kernel: Kernel,
    buffers: Sequence[np.ndarray | None],
    sizes: Mapping[str, int],
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Writes the kernel's results into its buffers. Scratch buffers are None. watch: called in each iteration of the parallel
    loops; may raise to end the run.

    Raises `IndexOutOfRange`, and IndexError if the kernel itself reads or writes out of bounds.
    """
    _Machine(kernel, buffers, sizes, watch).run()


class _Machine:
    def __init__(
        self,
        kernel: Kernel,
        buffers: Sequence[np.ndarray | None],
        sizes: Mapping[str, int],
        watch: Callable[[], None],
    ) -> None:
        self.kernel, self.watch = kernel, watch
        self.slots: dict[Atom, int] = {Symbol(name): slot for slot, name in enumerate(sizes)}  # of `current`
        self.current: list[Any] = list(sizes.values())  # of sizes and loop variables
        self.dims: dict[int, tuple[Dim, Callable[[list[Any]], int]]] = {}  # prepared index expressions
        self.memo: dict[int, tuple[Scalar, Number]] = {}  # values of scalars in the current iteration
        self.results: dict[str, Number] = {}
        self.ranks: dict[str, list[int]] = {}
        self.accumulator: Number = 0
        self.further: list[Number] = []
        self.given = list(buffers)
        self.buffers: list[np.ndarray] = []

    def run(self) -> None:
        kernel = self.kernel
        match kernel:
            case LoopKernel():
                totals: dict[tuple[int, int], _Total] = {}
                self.ranks = self.ranked(kernel)
                for _ in self.walk(kernel.parallel, backwards=True):
                    self.fresh_scratch()
                    self.results.clear()
                    for stage in kernel.stages:
                        self.stage(stage)
                    for reduced in kernel.column_reductions:
                        self.column_reduction(reduced, totals)
                for (buffer, element), total in totals.items():
                    self.buffers[buffer][element] = total.result
            case ContractionKernel():
                self.fresh_scratch()
                for _ in self.walk((*kernel.shares, *kernel.batch, *kernel.rows, kernel.column), backwards=True):
                    self.contract(kernel)
            case AttentionKernel():
                self.fresh_scratch()
                for _ in self.walk((*kernel.batch, *kernel.rows), backwards=True):
                    self.attend(kernel)
            case AttentionGradientKernel():
                self.fresh_scratch()
                rows = (*kernel.heads, kernel.row)
                for own, others in ((rows, (kernel.key,)),) * kernel.of_rows + (
                    ((kernel.key,), rows),
                ) * kernel.of_keys:
                    for _ in self.walk((*kernel.batch, *own), backwards=True):
                        self.gradient(kernel, others)
            case _:
                raise unreachable(kernel)

    def fresh_scratch(self) -> None:
        """Replaces scratch memory: no values pass from one iteration to the next."""
        self.buffers = [
            np.zeros(self.dim(b.elements), numpy_dtype(b.dtype)) if given is None else given
            for b, given in zip(self.kernel.buffers, self.given, strict=True)
        ]

    def walk(self, loops: Sequence[LoopVar], backwards: bool = False) -> Iterator[None]:
        """Iterates over every index of the loops, the last loop fastest."""
        spans = [range(self.dim(v.extent)) for v in loops]
        slots = [self.slot(v) for v in loops]
        for index in itertools.product(*(reversed(s) if backwards else s for s in spans)):
            for slot, number in zip(slots, index, strict=True):
                self.current[slot] = number
            self.memo.clear()
            if backwards:
                self.watch()
            yield

    # ---- stages --------------------------------------------------------------------------------------------------------
    def stage(self, stage: Stage) -> None:
        ranks = [r for r in stage.reductions if r.kind == "rank"]
        totals = [_Total(r) for r in stage.reductions if r.kind != "rank"]
        for r in ranks:
            assert isinstance(self.kernel, LoopKernel)
            self.results[r.name] = self.ranks[r.name][self.flat(self.kernel.parallel)]
        for _ in self.walk(stage.loops):
            for total in totals:
                total.take(self.value(total.reduction.body), lambda r=total.reduction: self.dim(r.index))
            if stage.order == "parallel":
                for write in [(w, self.inside(w.buffer, w.offset), self.value(w.value)) for w in stage.writes]:
                    self.put(*write)
            else:
                for write in stage.writes:
                    self.write(write)
        for total in totals:
            self.results[total.reduction.name] = total.result
        self.memo.clear()

    def ranked(self, kernel: LoopKernel) -> dict[str, list[int]]:
        """The rank of each iteration of the parallel loops in its block, by the names of ranks. Keys do not depend on results."""
        found = [r for stage in kernel.stages for r in stage.reductions if r.kind == "rank"]
        if not found:
            return {}
        self.fresh_scratch()
        rows = [[int(self.value(r.body)) for r in found] for _ in self.walk(kernel.parallel)]
        block, ranks = self.dim(kernel.block), {r.name: [0] * len(rows) for r in found}
        for column, r in enumerate(found):
            for start in range(0, len(rows), block):
                keys = [row[column] for row in rows[start : start + block]]
                for rank, at in enumerate(sorted(range(block), key=keys.__getitem__)):
                    ranks[r.name][start + at] = rank
        return ranks

    def column_reduction(self, reduced: ColumnReduction, totals: dict[tuple[int, int], _Total]) -> None:
        """Accumulates one iteration of the parallel loops into its block, by buffer and element."""
        assert isinstance(self.kernel, LoopKernel)
        block = self.flat(self.kernel.parallel) // self.dim(self.kernel.block)
        length = math.prod(self.dim(v.extent) for v in reduced.loops)
        for _ in self.walk(reduced.loops):
            element = (reduced.buffer, block * length + self.flat(reduced.loops))
            totals.setdefault(element, _Total(reduced.reduction)).take(self.value(reduced.reduction.body))

    def flat(self, loops: Sequence[LoopVar]) -> int:
        """The linear index of the loops' current iteration."""
        number = 0
        for loop in loops:
            number = number * self.dim(loop.extent) + self.index(loop)
        return number

    def write(self, write: Write) -> None:
        self.put(write, self.inside(write.buffer, write.offset), self.value(write.value))

    def put(self, write: Write, element: int, value: Any) -> None:
        self.buffers[write.buffer][element] = value
        self.memo.clear()  # memory has changed: loads may give other values

    def contract(self, kernel: ContractionKernel) -> None:
        for stage in kernel.stages:
            self.stage(stage)
        totals = [_Total(Reduction("acc", "sum", kernel.dtype, kernel.lhs)) for _ in kernel.weights]
        wide = "float64" if totals[0].wide else kernel.dtype
        shares = math.prod(self.dim(v.extent) for v in kernel.shares)
        for number, _ in enumerate(self.walk(kernel.depth)):
            if number % shares != self.flat(kernel.shares):  # these shares are as good as any
                continue
            for total, rhs in zip(totals, kernel.weights, strict=True):
                total.take(numbers.apply("mul", wide, self.value(kernel.lhs), self.value(rhs)))
        self.finish(totals, kernel.epilogue)

    def attend(self, kernel: AttentionKernel) -> None:
        """One row: the scores of all keys, their softmax, and the weighted sum of the values."""
        scores: list[Number] = []
        for _ in self.walk((kernel.key,)):
            total = _Total(Reduction("acc", "sum", kernel.dtype, kernel.query))
            for _ in self.walk((kernel.depth,)):
                total.take(numbers.apply("mul", "float64", self.value(kernel.query), self.value(kernel.keys)))
            self.accumulator = total.result
            self.memo.clear()
            scores.append(self.value(kernel.score))
            if scores[-1] != -math.inf and not self.dim(kernel.first) <= self.index(kernel.key) < self.dim(kernel.stop):
                raise ValueError(f"a key outside of {kernel.first} .. {kernel.stop} is not hidden")
        weights = softmax(np.array(scores, np.longdouble))
        for _ in self.walk((kernel.column,)):
            total = _Total(Reduction("acc", "sum", kernel.dtype, kernel.values))
            for _ in self.walk((kernel.key,)):
                weight = weights[self.index(kernel.key)]
                factor = np.longdouble(self.value(kernel.factor))
                total.take(weight * factor * np.longdouble(self.value(kernel.values)) if weight != 0 else 0.0)
            self.finish([total], kernel.epilogue)
        wide = np.array(scores, np.longdouble)
        top = wide.max(initial=-np.inf)
        with np.errstate(divide="ignore"):
            self.accumulator = float((np.log(np.exp(wide - top).sum()) + top) / LN2) if top != -np.inf else -math.inf
        self.memo.clear()
        for write in kernel.norms:
            self.write(write)

    def gradient(self, kernel: AttentionGradientKernel, others: Sequence[LoopVar]) -> None:
        """The gradient of one row or one key, summed over all keys or rows that it interacts with."""
        of_rows = kernel.key in others
        sums = np.zeros((2, max(self.dim(kernel.depth.extent), self.dim(kernel.column.extent))), np.longdouble)
        depth, column = self.dim(kernel.depth.extent), self.dim(kernel.column.extent)
        for _ in self.walk(others):
            query, keys, values, out_gradient = (
                self.vector(node, loop)
                for node, loop in (
                    (kernel.query, kernel.depth),
                    (kernel.keys, kernel.depth),
                    (kernel.values, kernel.column),
                    (kernel.output_gradient, kernel.column),
                )
            )
            self.accumulator = numbers.rounded(query @ keys, kernel.dtype)
            self.memo.clear()
            score = np.longdouble(self.value(kernel.score))
            if score == -np.inf:
                self.score_gradient(kernel, of_rows, 0.0)
                continue
            seen = self.dim(kernel.first) <= self.index(kernel.key) < self.dim(kernel.stop)
            if not seen or not self.dim(kernel.begin) <= self.index(kernel.row) < self.dim(kernel.end):
                raise ValueError("a key outside of a row's bounds is not hidden, or a row outside of a key's")
            p = np.exp(score - np.longdouble(self.value(kernel.norm)) * LN2)
            factor = np.longdouble(self.value(kernel.factor))
            slope = p * (factor * (out_gradient @ values) - self.value(kernel.dot))
            derivative = self.value(kernel.score_derivative)
            self.score_gradient(kernel, of_rows, slope)
            slope *= derivative
            sums[0, :depth] += slope * (keys if of_rows else query)
            sums[1, :column] += p * factor * out_gradient
        keys_ways = ((kernel.depth, kernel.key_writes), (kernel.column, kernel.value_writes))
        ways = ((kernel.depth, kernel.row_writes), (kernel.column, ())) if of_rows else keys_ways
        for (loop, writes), totals in zip(ways, sums, strict=True):
            for _ in self.walk((loop,)):
                self.accumulator = numbers.rounded(totals[self.index(loop)], kernel.dtype)
                for write in writes:
                    self.write(write)

    def score_gradient(self, kernel: AttentionGradientKernel, of_rows: bool, value: Any) -> None:
        """The gradient of one score, written while the sums of its row are formed."""
        if of_rows and kernel.score_writes:
            self.accumulator = numbers.rounded(value, kernel.dtype)
            self.memo.clear()
            for write in kernel.score_writes:
                self.write(write)

    def vector(self, node: Scalar, loop: LoopVar) -> np.ndarray:
        return np.array([self.value(node) for _ in self.walk((loop,))], np.longdouble)

    def finish(self, totals: Sequence[_Total], epilogue: Sequence[Write]) -> None:
        self.accumulator, *self.further = (total.result for total in totals)
        self.memo.clear()
        for write in epilogue:
            self.write(write)

    # ---- index expressions ---------------------------------------------------------------------------------------------
    def dim(self, dim: Dim) -> int:
        if isinstance(dim, int):
            return dim
        if id(dim) not in self.dims:
            self.dims[id(dim)] = (dim, self.prepared(dim))
        return self.dims[id(dim)][1](self.current)

    def prepared(self, dim: Expr) -> Callable[[list[Any]], int]:
        """An index expression as a function of `current`: an element takes a few of them."""
        atoms: list[Atom] = []

        def factor(atom: Atom) -> str:
            if not isinstance(atom, Fetched | Call):
                return f"current[{self.slot(atom)}]"
            atoms.append(atom)
            return f"atom(atoms[{len(atoms) - 1}])"

        terms = ["*".join([str(count), *map(factor, monomial)]) for monomial, count in dim.terms]
        return eval(f"lambda current: {' + '.join(terms) or 0}", {"atom": self.atom, "atoms": atoms})

    def slot(self, atom: Atom) -> int:
        """The position in `current` of a size or a loop variable."""
        if atom not in self.slots:
            self.slots[atom] = len(self.current)
            self.current.append(None)
        return self.slots[atom]

    def index(self, loop: LoopVar) -> int:
        """The loop's current iteration."""
        return self.current[self.slots[loop]]

    def atom(self, atom: Fetched | Call) -> int:
        if isinstance(atom, Fetched):
            return self.fetch(atom)
        return INDEX_FUNCTIONS[atom.op](*map(self.dim, atom.args))

    def fetch(self, atom: Fetched) -> int:
        index, extent = int(self.value(atom.source)), self.dim(atom.extent)
        wrapped = index + extent if index < 0 else index
        if not 0 <= wrapped < extent:
            index += FROM_START if index < -FROM_START // 2 else 0
            raise IndexOutOfRange(atom.site, index, extent)
        return wrapped

    def inside(self, buffer: int, offset: Dim) -> int:
        """Returns the offset if it is in the buffer's range."""
        at = self.dim(offset)
        if not 0 <= at < len(self.buffers[buffer]):
            raise IndexError(f"{offset} = {at} lies outside of buffer {buffer} of {len(self.buffers[buffer])} elements")
        return at

    # ---- scalars -------------------------------------------------------------------------------------------------------
    def value(self, node: Scalar) -> Number:
        if (known := self.memo.get(id(node))) is None:
            known = self.memo[id(node)] = (node, self.compute(node))
        return known[1]

    def compute(self, node: Scalar) -> Number:
        match node:
            case Const(dtype=dtype, value=value):
                return numbers.rounded(value, dtype)
            case Load(dtype=dtype, buffer=buffer, offset=offset):
                return _number(self.buffers[buffer][self.inside(buffer, offset)], dtype)
            case Index(dim=dim):
                return self.dim(dim)
            case Apply(function=function, args=args):
                return numbers.apply(function, args[-1].dtype, *map(self.value, args))
            case Convert(dtype=dtype, arg=arg, saturate=saturate):
                return numbers.convert(self.value(arg), arg.dtype, dtype, saturate)
            case Reinterpret(dtype=dtype, arg=arg):
                return numbers.reinterpret(self.value(arg), arg.dtype, dtype)
            case Where(ranges=ranges, then=then, otherwise=otherwise):
                holds = all(0 <= self.dim(index) < self.dim(extent) for index, extent in ranges)
                return self.value(then if holds else otherwise)
            case Kept(words=words, row=row, column=column, calls=calls, rate=rate):
                key = [int(self.value(word)) for word in words]
                return is_kept((key[0], key[1]), self.dim(row) * self.dim(calls), self.dim(column), rate)
            case Reduced(name=name):
                return self.results[name]
            case Accumulator(number=number):
                return self.further[number - 1] if number else self.accumulator
        raise TypeError(f"the interpreter does not know {type(node).__name__}")


def _number(element: Any, dtype: str) -> Number:
    """An array's element as a plain number."""
    match DTYPES[dtype].kind:
        case "bool":
            return bool(element)
        case "int" | "uint":
            return int(element)
        case "complex" | "string" | "list":  # these are only moved and compared
            return element
    return float(element)


INDEX_FUNCTIONS: dict[str, Callable[..., int]] = {
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "min": min,
    "max": max,
    "broadcast": lambda *sizes: next((size for size in sizes if size != 1), 1),
}


def softmax(scores: np.ndarray) -> np.ndarray:
    """The softmax of a row; zeros if every score is minus infinity."""
    with np.errstate(all="ignore"):
        top = scores.max(initial=-np.inf)
        e = np.exp(scores - (0 if top == -np.inf else top))
        return e / (e.sum() or 1)


class _Total:
    """A reduction in progress."""

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        self.arg = reduction.kind.startswith("arg")
        start = None if self.arg else numbers.rounded(identity(reduction.kind, reduction.dtype), reduction.dtype)
        self.wide = DTYPES[reduction.dtype].kind == "float" and reduction.kind in ("sum", "prod")
        self.value: Any = np.longdouble(start) if self.wide else start
        self.position = -1

    def take(self, number: Any, position: Callable[[], int] = int) -> None:
        kind, dtype = self.reduction.kind, self.reduction.dtype
        if self.arg:
            if self.position < 0 or self.beats(number):
                self.value, self.position = number, position()
        elif self.wide:
            with np.errstate(all="ignore"):
                self.value = self.value + number if kind == "sum" else self.value * number
        else:
            self.value = numbers.apply(REDUCERS[kind], dtype, self.value, number)

    def beats(self, number: Number) -> bool:
        """True if an element replaces the best so far. NaN wins; ties go to the first element, or the last."""
        last = self.reduction.last
        if self.value != self.value:
            return last and number != number
        if number != number:
            return True
        better = number > self.value if self.reduction.kind == "argmax" else number < self.value
        return better or (last and number == self.value)

    @property
    def result(self) -> Number:
        return self.position if self.arg else numbers.rounded(self.value, self.reduction.dtype)
