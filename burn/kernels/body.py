"""The scalar body of a kernel, and the kernels it stands in. Nothing here knows of a back end.

A kernel is a nest of loops around scalar expressions. Index maps are `Dim` expressions over the loops' variables and the
program's sizes; a scalar expression is a graph of the node classes below, shared by identity. `lower.py` makes them from burn
ops; a back end prints them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from burn.dialect.dims import Atom, Dim, Expr, LoopVar, atoms, ceildiv, substitute
from burn.dialect.types import DTYPES


@dataclass(frozen=True, eq=False)
class Scalar:
    """A value of one element type at one place of the iteration space."""

    dtype: str


@dataclass(frozen=True, eq=False)
class Const(Scalar):
    value: float | int | bool


@dataclass(frozen=True, eq=False)
class Load(Scalar):
    """Element `offset` of a buffer; the offset is in range wherever the load is evaluated."""

    buffer: int
    offset: Dim


@dataclass(frozen=True, eq=False)
class Index(Scalar):
    """An integer expression as a value (always int64)."""

    dim: Dim


@dataclass(frozen=True, eq=False)
class Apply(Scalar):
    """A pointwise function by its name in the dialect, on arguments of one dtype (but for select's condition)."""

    function: str
    args: tuple[Scalar, ...]


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
class Reduced(Scalar):
    """The result of an earlier stage's reduction."""

    name: str


@dataclass(frozen=True, eq=False)
class Accumulator(Scalar):
    """The contraction's result at this place, inside an epilogue."""


@dataclass(frozen=True)
class Fetched(LoopVar):
    """An index read from a tensor: `source` evaluated, counted from the end if negative, checked against the extent.
    `site` names the source node for the run-time error."""

    source: Scalar
    site: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Buffer:
    """One of a kernel's buffers: `read`, `write`, or `scratch` (private to a thread, `elements` long)."""

    dtype: str
    role: str
    elements: Dim = 0


@dataclass(frozen=True, eq=False)
class Reduction:
    """`name` = the reduction by `kind` of `body` over the stage's loops. For arg kinds (argmax, argmin) `index` is the place;
    ties go to the first, or with `last` to the last."""

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


@dataclass(frozen=True, eq=False)
class Stage:
    """Loops inside the parallel ones, in which reductions are formed or elements written."""

    loops: tuple[LoopVar, ...]
    reductions: tuple[Reduction, ...] = ()
    writes: tuple[Write, ...] = ()

    @property
    def scalars(self) -> list[Scalar]:
        return [r.body for r in self.reductions] + [w.value for w in self.writes]


@dataclass(frozen=True, eq=False)
class LoopKernel:
    """For every place of the parallel loops, the stages in order. `sequential` is a loop between the two along which
    state is carried by the writes (cumulative sums); it keeps its order."""

    parallel: tuple[LoopVar, ...]
    stages: tuple[Stage, ...]
    buffers: tuple[Buffer, ...]


@dataclass(frozen=True, eq=False)
class ContractionKernel:
    """acc[batch.., rows.., column] = sum over outer.., inner of lhs * rhs; the epilogue's writes read it as `Accumulator`.

    Both sides are converted to `dtype` where they are read: products and sums are of that type.

    The right side is read in panels of `width` columns: column = panel * width + a place in 0..width-1. `lhs.offset` and
    `rhs.offset` are sums of products in the loops' variables; `rhs.offset` is that of the panel's first column, the others
    follow it. A place of lhs that is outside `valid` (0 <= e < n for each pair) counts as 0: convolution's padding. When the
    right side is `packed`, the last panel is filled up with zeros; else panels come one column wide, neighbouring columns are
    neighbouring elements, and a back end makes its panels of them (`widened`). Columns past the last are then not read."""

    dtype: str
    batch: tuple[LoopVar, ...]
    rows: tuple[LoopVar, ...]
    column: LoopVar
    panel: LoopVar
    width: int
    outer: tuple[LoopVar, ...]
    inner: LoopVar
    lhs: Load
    rhs: Load
    valid: tuple[tuple[Dim, Dim], ...]
    packed: bool
    epilogue: tuple[Write, ...]
    buffers: tuple[Buffer, ...]

    def widened(self, width: int) -> ContractionKernel:
        """The kernel with unpacked columns taken `width` at a time."""
        panel = LoopVar("panel", ceildiv(self.column.extent, width))
        place = 0 if panel.extent == 1 else Expr.of(panel) * width
        offset = substitute(self.rhs.offset, {self.panel: place})
        return replace(self, panel=panel, width=width, rhs=replace(self.rhs, offset=offset))


Kernel = LoopKernel | ContractionKernel

EXPENSIVE = frozenset(
    (
        *("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "atan2"),
        *("sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "sigmoid", "pow"),
    )
)
"""Functions of ten instructions and more: their results are kept rather than computed again."""


REDUCERS = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
"""The pointwise function that combines two partial results of a reduction."""


def identity(kind: str, dtype: str) -> float | int | bool:
    """What a reduction over nothing gives, and what padding counts as."""
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
    return ()


def walk(*roots: Scalar) -> Iterator[Scalar]:
    """Every node once, operands first, through fetched indices too."""
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
    """Rebuilds expressions with every index expression mapped by `dim`, those of fetched indices too. Shared nodes stay
    shared."""

    dim: Callable[[Dim], Dim]
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
                return replace(node, offset=self.index(offset))
            case Index(dim=dim):
                return replace(node, dim=self.index(dim))
            case Apply(args=args):
                return replace(node, args=tuple(map(get, args)))
            case Convert(arg=arg) | Reinterpret(arg=arg):
                return replace(node, arg=get(arg))
            case Where(ranges=ranges, then=then, otherwise=otherwise):
                mapped = tuple((self.index(e), self.index(n)) for e, n in ranges)
                return replace(node, ranges=mapped, then=get(then), otherwise=get(otherwise))
        return node


def loop_atoms(dim: Dim) -> set[Atom]:
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
    return found
