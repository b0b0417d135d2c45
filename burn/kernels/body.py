"""Kernels and their scalar bodies, independent of any back end.

A kernel is a nest of loops around scalar expressions. Index maps are `Dim` expressions over the loops' variables and
the program's sizes. A scalar expression is a graph of the node classes below, shared by identity. `lower.py` makes them
from burn ops; a back end prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import ClassVar, Literal

from burn.dialect.dims import Atom, Dim, Expr, LoopVar, atoms, substitute
from burn.dialect.functions import FUNCTIONS
from burn.dialect.types import DTYPES


@dataclass(frozen=True, eq=False)
class Scalar:
    """A value of one element type at one iteration of the loops."""

    dtype: str


@dataclass(frozen=True, eq=False)
class Const(Scalar):
    value: float | int | bool


@dataclass(frozen=True, eq=False)
class Load(Scalar):
    """Element `offset` of a buffer. The offset is in range wherever the load is evaluated."""

    buffer: int
    offset: Dim


@dataclass(frozen=True, eq=False)
class Index(Scalar):
    """An integer expression as a value (always int64)."""

    dim: Dim


@dataclass(frozen=True, eq=False)
class Apply(Scalar):
    """A pointwise function by its name in the dialect. All arguments have one dtype, except select's condition. coarse: float32
    whose relative error is only seen after rounding to bfloat16, so that a target may compute fewer digits."""

    function: str
    args: tuple[Scalar, ...]
    coarse: bool = False


@dataclass(frozen=True, eq=False)
class Convert(Scalar):
    arg: Scalar
    saturate: bool = True


@dataclass(frozen=True, eq=False)
class Reinterpret(Scalar):
    """The argument's bits read as `dtype`."""

    arg: Scalar


@dataclass(frozen=True, eq=False)
class Where(Scalar):
    """`then` if 0 <= e < n for every (e, n), else `otherwise`. Loads in `then` are valid only where that holds."""

    ranges: tuple[tuple[Dim, Dim], ...]
    then: Scalar
    otherwise: Scalar


@dataclass(frozen=True, eq=False)
class Kept(Scalar):
    """True for an element that dropout keeps (burn.random_kept). words: those of the key; row: the element's row; column: its
    index in the row; calls: the cipher's calls for a row."""

    words: tuple[Scalar, Scalar]
    row: Dim
    column: Dim
    calls: Dim
    rate: float


@dataclass(frozen=True, eq=False)
class Reduced(Scalar):
    """The result of an earlier stage's reduction."""

    name: str


@dataclass(frozen=True, eq=False)
class Accumulator(Scalar):
    """A contraction's result for the current iteration, inside an epilogue or a score. number: of its rhs, 0 for the first."""

    number: int = 0


@dataclass(frozen=True)
class Fetched(LoopVar):
    """An index read from a tensor: `source` evaluated, counted from the end if negative, checked against the extent.
    `site` names the source node for the run-time error. `certain`: every value is in range and not negative, so a back end need
    not check."""

    source: Scalar
    site: str
    certain: bool = False

    def __str__(self) -> str:
        return self.name


Access = Literal["read", "write", "scratch"]
"""A kernel's access to a buffer. Scratch is private to an iteration of the parallel loops. A kernel may also read a
buffer that it writes, in a stage that states its order."""


@dataclass(frozen=True)
class Buffer:
    """One of a kernel's buffers. `elements` is the length of a buffer that the caller allocates: scratch, or memory
    shared between the kernels of a group. `panels`: the buffer is packed for a back end that reads this many
    neighbouring columns of a contraction's rhs at a time ([.., columns / panels, depth.., panels], zero-padded). Index
    maps do not show the packing."""

    dtype: str
    access: Access
    elements: Dim = 0
    panels: int = 0


@dataclass(frozen=True, eq=False)
class Reduction:
    """`name` = the reduction by `kind` of `body` over the stage's loops. For arg kinds (argmax, argmin) `index` is the
    position. Ties go to the first position, or with `last` to the last.

    "rank", in a stage without loops, is the stable rank of `body`, an integer from 0 up to `index`, among the iterations of the
    kernel's block (`LoopKernel.block`). The kernel has scratch memory of two words for each iteration, which hold a key and an
    index in the block."""

    name: str
    kind: str
    dtype: str
    body: Scalar
    index: Dim = 0
    last: bool = False


@dataclass(frozen=True, eq=False)
class Write:
    buffer: int
    offset: Dim
    value: Scalar


Order = Literal["parallel", "sequential", "scatter"]
"""Dependences between the iterations of a stage's loops.

- parallel: none, except that they feed reductions, which may be formed in any order.
- sequential: an iteration reads the writes of earlier iterations.
- scatter: data determines the write index, so iterations may write the same element. They run one after another; each
  overwrites the element or accumulates into it.
"""


@dataclass(frozen=True, eq=False)
class Stage:
    """Loops inside the parallel ones, in which reductions are formed or elements written."""

    loops: tuple[LoopVar, ...]
    reductions: tuple[Reduction, ...] = ()
    writes: tuple[Write, ...] = ()
    order: Order = "parallel"

    @property
    def scalars(self) -> list[Scalar]:
        return [r.body for r in self.reductions] + [w.value for w in self.writes]


@dataclass(frozen=True, eq=False)
class ColumnReduction:
    """A column reduction: combines values across blocks of parallel iterations, for every index of `loops`. It reads
    the stage reductions of an iteration; `buffer` gets [blocks, indices of `loops`]."""

    loops: tuple[LoopVar, ...]
    reduction: Reduction
    buffer: int


@dataclass(frozen=True, eq=False)
class LoopKernel:
    """Runs the stages in order for every iteration of the parallel loops, which are independent of each other.

    Column reductions combine blocks of `block` iterations in loop order (the last loop fastest), and ranks are those in such a
    block. The last block may be shorter, but not if there are ranks.
    """

    MERGED: ClassVar[tuple[str, ...]] = ("parallel",)
    """The fields with loops that `rewrite.collapse` may merge, in order of preference."""

    parallel: tuple[LoopVar, ...]
    stages: tuple[Stage, ...]
    buffers: tuple[Buffer, ...]
    column_reductions: tuple[ColumnReduction, ...] = ()
    block: Dim = 1


@dataclass(frozen=True, eq=False)
class ContractionKernel:
    """acc[batch.., rows.., column] = sum over depth.. of lhs * rhs; the epilogue's writes read it as `Accumulator`.

    Operands are multiplied and accumulated in `dtype`. `lhs` does not depend on the column, `rhs` not on the rows. The
    index maps of `rhs` contain the column even if there is only one. Operands are loads (converted if stored in another
    type) or any scalar expression: a padded operand is a `Where` with a zero. A back end decides how to tile the loops
    and whether to pack operands. `fast`: 8-bit floats may accumulate in fewer bits.

    `stages` form reductions for each batch and row, which `lhs` reads as `Reduced`: those of a norm before the matmul.
    `further` are the rhs of more contractions with the same loops and lhs. The epilogue reads all results.
    `shares`: loops whose iterations sum a share of the depth each. A back end chooses the shares, which may be empty; together
    they are the whole depth.
    """

    MERGED: ClassVar[tuple[str, ...]] = ("rows", "batch", "depth")
    dtype: str
    batch: tuple[LoopVar, ...]
    rows: tuple[LoopVar, ...]
    column: LoopVar
    depth: tuple[LoopVar, ...]
    lhs: Scalar
    rhs: Scalar
    epilogue: tuple[Write, ...]
    buffers: tuple[Buffer, ...]
    fast: bool = False
    stages: tuple[Stage, ...] = ()
    further: tuple[Scalar, ...] = ()
    shares: tuple[LoopVar, ...] = ()

    @property
    def weights(self) -> tuple[Scalar, ...]:
        """The rhs of each contraction."""
        return (self.rhs, *self.further)

    @property
    def is_plain(self) -> bool:
        """True for one contraction without reductions before it."""
        return not self.stages and not self.further


@dataclass(frozen=True, eq=False)
class AttentionKernel:
    """acc[batch.., rows.., column] = sum over keys of p * factor * values; p is the softmax over the keys of `score`, which
    reads the sum over depth of query * keys as `Accumulator`. The epilogue's writes read acc as `Accumulator`.
    `factor` is that of dropout, or the constant 1.

    `query` does not depend on key or column, `keys` not on rows or column, `values` not on rows. All of them, `score`
    and the accumulators are of type `dtype`. A score of minus infinity masks a key; a row without an unmasked key gives
    zeros. `score` masks every key outside of first <= key < stop, which may depend on the rows, so a back end may skip
    those keys. A back end need not hold all scores: an online softmax suffices (arXiv 1805.02867).

    `norms` has one write for each row, which reads log2 of the sum of the scores' exponentials as `Accumulator`. It is
    minus infinity for a row without an unmasked key.
    """

    MERGED: ClassVar[tuple[str, ...]] = ("rows", "batch")
    dtype: str
    batch: tuple[LoopVar, ...]
    rows: tuple[LoopVar, ...]
    key: LoopVar
    depth: LoopVar
    column: LoopVar
    query: Scalar
    keys: Scalar
    values: Scalar
    score: Scalar
    factor: Scalar
    first: Dim
    stop: Dim
    epilogue: tuple[Write, ...]
    norms: tuple[Write, ...]
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, eq=False)
class AttentionGradientKernel:
    """Gradients of an attention's operands (arXiv 2307.08691), with `p` = exp(score) / 2^norm, zero for a masked key,
    and

        slope = p * (factor * sum over columns of output_gradient * values - dot) * score_derivative

    A row is an index of `heads` and `row`. The writes read sums as `Accumulator`:

        row_writes: acc[batch.., heads.., row, depth] = sum over keys of slope * keys
        key_writes: acc[batch.., key, depth] = sum over rows of slope * query
        value_writes: acc[batch.., key, column] = sum over rows of p * factor * output_gradient
        score_writes: acc[batch.., heads.., row, key] = slope / score_derivative, zero for a masked key

    A kernel has the writes of rows and scores, those of keys and values, or all (`Preferences.fused_gradients`).

    `query`, `keys`, `values`, `score` and `factor` are as in an AttentionKernel. `output_gradient` is the gradient of the
    attention's result. `score_derivative` is the score's derivative by the sum that it reads as `Accumulator`.
    `output_gradient` depends on rows and column, `norm` and `dot` on rows alone. A key is masked for rows outside of
    begin <= row < end, which may depend on the key. A row masks the keys outside of first <= key < stop.
    """

    MERGED: ClassVar[tuple[str, ...]] = ("batch", "heads")
    dtype: str
    batch: tuple[LoopVar, ...]
    heads: tuple[LoopVar, ...]
    row: LoopVar
    key: LoopVar
    depth: LoopVar
    column: LoopVar
    query: Scalar
    keys: Scalar
    values: Scalar
    score: Scalar
    factor: Scalar
    score_derivative: Scalar
    output_gradient: Scalar
    norm: Scalar
    dot: Scalar
    first: Dim
    stop: Dim
    begin: Dim
    end: Dim
    row_writes: tuple[Write, ...]
    key_writes: tuple[Write, ...]
    value_writes: tuple[Write, ...]
    score_writes: tuple[Write, ...]
    buffers: tuple[Buffer, ...]

    @property
    def of_rows(self) -> bool:
        return bool(self.row_writes or self.score_writes)

    @property
    def of_keys(self) -> bool:
        return bool(self.key_writes or self.value_writes)


def has_dropout(kernel: AttentionKernel | AttentionGradientKernel) -> bool:
    return not isinstance(kernel.factor, Const)


Kernel = LoopKernel | ContractionKernel | AttentionKernel | AttentionGradientKernel
"""Distinguished by `match`, with `unreachable` after the last case."""

EXPENSIVE = frozenset(row.name for row in FUNCTIONS if row.expensive)
"""Functions whose results are stored rather than recomputed."""


REDUCERS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
"""The pointwise function that combines two partial results of a reduction."""


def identity(kind: str, dtype: str) -> float | int | bool:
    """The identity element of a reduction: its result over nothing, and the value of padding."""
    info = DTYPES[dtype]
    if kind in ("sum", "any"):
        return 0
    if kind in ("prod", "all"):
        return 1
    lowest = kind == "max"
    if info.kind == "float":
        return float("-inf") if lowest else float("inf")
    if info.kind == "uint":
        return 0 if lowest else -1  # all ones, as MLIR's signless integers write it
    return -(1 << (info.bits - 1)) if lowest else (1 << (info.bits - 1)) - 1


# ---- walking -----------------------------------------------------------------------------------------------------------


def children(node: Scalar) -> tuple[Scalar, ...]:
    match node:
        case Apply(args=args):
            return args
        case Convert(arg=arg) | Reinterpret(arg=arg):
            return (arg,)
        case Where(then=then, otherwise=otherwise):
            return (then, otherwise)
        case Kept(words=words):
            return words
    return ()


def own_dims(node: Scalar) -> tuple[Dim, ...]:
    """The index expressions that a node itself holds."""
    match node:
        case Load(offset=offset):
            return (offset,)
        case Index(dim=dim):
            return (dim,)
        case Where(ranges=ranges):
            return tuple(d for pair in ranges for d in pair)
        case Kept(row=row, column=column, calls=calls):
            return (row, column, calls)
    return ()


def walk(*roots: Scalar) -> Iterator[Scalar]:
    """Yields every node once, operands first, including those of fetched indices."""
    seen: set[int] = set()
    stack: list[tuple[Scalar, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        node, expanded = stack.pop()
        if expanded:
            yield node
            continue
        if id(node) in seen:
            continue
        seen.add(id(node))
        stack.append((node, True))
        fetched = [a.source for d in own_dims(node) for a in atoms(d) if isinstance(a, Fetched)]
        stack += [(child, False) for child in (*reversed(children(node)), *fetched)]


@dataclass
class Rewriter:
    """Rebuilds expressions: maps every index expression by `dim` (also those of fetched indices), nodes without
    operands or index expressions by `leaf`, and buffer numbers by `buffer`. Shared nodes stay shared."""

    dim: Callable[[Dim], Dim]
    leaf: Callable[[Scalar], Scalar] = lambda node: node
    buffer: Callable[[int], int] = lambda number: number
    memo: dict[int, tuple[Scalar, Scalar]] = field(default_factory=dict)
    fetched: dict[Atom, Dim] = field(default_factory=dict)

    def __call__(self, root: Scalar) -> Scalar:
        for node in walk(root):
            if id(node) not in self.memo:
                self.memo[id(node)] = (node, self._rebuild(node))
        return self.memo[id(root)][1]

    def index(self, dim: Dim) -> Dim:
        """An index expression, mapped; the indices it fetches are rebuilt first."""
        mine = [a for a in atoms(dim) if isinstance(a, Fetched)]
        if not mine:
            return self.dim(dim)
        held: dict[Atom, Dim] = {}
        for atom in mine:
            if atom not in self.fetched:
                self.fetched[atom] = Expr.of(replace(atom, extent=self.dim(atom.extent), source=self(atom.source)))
            held[atom] = self.fetched[atom]
        return substitute(self.dim(dim), held)

    def _rebuild(self, node: Scalar) -> Scalar:
        get = lambda child: self.memo[id(child)][1]  # noqa: E731
        match node:
            case Load(offset=offset):
                return replace(node, buffer=self.buffer(node.buffer), offset=self.index(offset))
            case Index(dim=dim):
                return replace(node, dim=self.index(dim))
            case Apply(args=args):
                return replace(node, args=tuple(map(get, args)))
            case Convert(arg=arg) | Reinterpret(arg=arg):
                return replace(node, arg=get(arg))
            case Where(ranges=ranges, then=then, otherwise=otherwise):
                mapped = tuple((self.index(e), self.index(n)) for e, n in ranges)
                return replace(node, ranges=mapped, then=get(then), otherwise=get(otherwise))
            case Kept(words=(high, low), row=row, column=column, calls=calls):
                row, column, calls = map(self.index, (row, column, calls))
                return replace(node, words=(get(high), get(low)), row=row, column=column, calls=calls)
        return self.leaf(node)


@lru_cache(maxsize=1 << 12)
def loop_atoms(dim: Dim) -> frozenset[Atom]:
    """The atoms dim depends on, including those that fetched indices depend on."""
    found: set[Atom] = set()
    todo = list(atoms(dim))
    while todo:
        atom = todo.pop()
        if atom in found:
            continue
        found.add(atom)
        if isinstance(atom, Fetched):
            for node in walk(atom.source):
                for d in own_dims(node):
                    todo += atoms(d)
    return frozenset(found)
