"""Control flow, terminators, and the groups that fusion makes.

The regions of `If` and `Loop` see the values and sizes around them. A dim of a result is an expression that is valid
outside of the op, or a new symbol in `symbols`. The op defines that symbol from the size of the yielded value.
`defined_symbols` lists the sizes that any op defines.
"""

from __future__ import annotations

from burn.dialect.dims import Dim, Symbol, symbols
from burn.dialect.mlir import ir
from burn.dialect.op import DEFINES, DEFINES_SEVERAL, Op, Operand, Region, Variadic
from burn.dialect.traits import Trait
from burn.dialect.types import TensorType, type_of


class Yield(Op, name="yield", pure=False, terminator=True):
    """Terminates a region: its operands are the region's results."""

    values: Variadic

    @classmethod
    def infer(cls, values: list[TensorType]) -> list[TensorType]:
        return []


class Return(Op, name="return", pure=False, terminator=True):
    """Terminates the program: its operands are the outputs. Output i may reuse the memory of input `takes[i]` (unless
    that is -1) if the caller donates the input (the pass `donate`)."""

    values: Variadic
    takes: tuple[int, ...] | None = None

    @classmethod
    def infer(cls, values: list[TensorType], takes: tuple[int, ...] | None) -> list[TensorType]:
        return []


class If(Op, name="if", pure=False):
    """Runs one of two regions. Shapes: condition [] bool -> the results of both regions.

    A result's dim in `symbols` is the size of the value that the executed region yields.
    """

    condition: Operand
    symbols: tuple[str, ...] = ()
    then_region: Region
    else_region: Region

    def check_types(self, operands: list[TensorType], results: list[TensorType]) -> None:
        if operands[0] != TensorType("bool", ()):
            self.fail(f"the condition must be bool[], not {operands[0]}")
        for name, region in zip(self.REGIONS, self.operation.regions, strict=True):
            check_fit(self, f"the {name}'s results", yielded_types(region), results, set(self.symbols))


class Loop(Op, name="loop", pure=False):
    """Repeats a region until `trips` iterations have run (no limit if absent) or the condition is false.

    Shapes: trips [] int64, condition [] bool, carried... -> carried..., stacked... The region's arguments are the
    iteration [] int64, the condition [] bool, carried... It yields the next condition, the next carried..., and `scans`
    slices [s..]. The results [n, s..] stack the slices. n is the number of iterations: a dim in `symbols`, or the trip
    count if no condition can end the loop earlier.

    A carried value may change its shape. It then has symbols for the varying dims in the region argument's type (the
    size in this iteration), and others in the result's (the final size). All are listed in `symbols`. Other dims never
    change.
    """

    trips: Operand | None
    condition: Operand | None
    carried: Variadic
    scans: int = 0
    symbols: tuple[str, ...] = ()
    body: Region

    def check_types(self, operands: list, results: list[TensorType]) -> None:
        trips, condition, carried = operands
        own = set(self.symbols)
        if trips not in (None, TensorType("int64", ())) or condition not in (None, TensorType("bool", ())):
            self.fail(f"takes an int64[] trip count and a bool[] condition, not {trips} and {condition}")
        arguments = [type_of(a) for a in self.operation.regions[0].blocks[0].arguments]
        if arguments[:2] != [TensorType("int64", ()), TensorType("bool", ())]:
            self.fail(f"the region's first arguments must be int64[] and bool[], not {_list(arguments[:2])}")
        check_fit(self, "the initial values", carried, arguments[2:], own)
        given = yielded_types(self.operation.regions[0])
        if len(given) != 1 + len(carried) + self.scans or given[0] != TensorType("bool", ()):
            self.fail(f"the region must yield bool[], {len(carried)} carried values and {self.scans} slices")
        check_fit(self, "the carried values", given[1 : 1 + len(carried)], arguments[2:], own)
        check_fit(self, "the initial values", carried, results[: len(carried)], own)
        slices = [t.with_shape(t.shape[1:]) for t in results[len(carried) :]]
        check_fit(self, "the slices", given[1 + len(carried) :], slices, own)
        fixed = [t for t in results[len(carried) :] if _name(t.shape[0]) not in own]
        if fixed and not self.is_counted:
            self.fail(f"a condition may end it early, so the length of {fixed[0]} must be one of its symbols")

    @property
    def is_counted(self) -> bool:
        """True if only the trip count ends the loop."""
        return counted(self.trips, self.condition, self.operation.regions[0].blocks[0])


def counted(trips: ir.Value | None, condition: ir.Value | None, block: ir.Block) -> bool:
    """True if a loop with this body always runs all its trips: it has a trip count, and its condition is initially true
    and never changes."""
    from burn.dialect.query import splat

    def holds(value: ir.Value) -> bool:
        return splat(value) is True

    following = list(block.operations)[-1].operation.operands[0]
    starts = condition is None or holds(condition)
    return trips is not None and starts and (following == block.arguments[1] or holds(following))


def check_fit(op: Op, what: str, have: list[TensorType], want: list[TensorType], own: set[str]) -> None:
    """Raises unless the types are equal except for dims that are symbols in `own`."""

    def fits(a: TensorType, b: TensorType) -> bool:
        same = [x == y or _name(y) in own for x, y in zip(a.shape, b.shape, strict=False)]
        return a.dtype == b.dtype and a.rank == b.rank and all(same)

    if len(have) != len(want) or not all(map(fits, have, want)):
        op.fail(f"{what} are {_list(have)}, which do not fit {_list(want)}")


def yielded(region: ir.Region) -> list[ir.Value]:
    """The operands of the `burn.yield` that ends a region."""
    return list(list(region.blocks[0].operations)[-1].operation.operands)


def yielded_types(region: ir.Region) -> list[TensorType]:
    return [type_of(value) for value in yielded(region)]


def defined_symbols(operation: ir.Operation | ir.OpView) -> set[str]:
    """The sizes that an op defines, without those of ops in its regions: the symbol of `burn.read_dim`, the counts of
    ops with data-dependent results, the symbols of control flow."""
    if isinstance(operation, Op) and not operation.IS_DEFINER:
        return set()
    attributes = operation.attributes
    names = {ir.StringAttr(attributes[key]).value for key in DEFINES if key in attributes}
    for key in DEFINES_SEVERAL:
        if key in attributes:
            names |= {ir.StringAttr(name).value for name in ir.ArrayAttr(attributes[key])}
    return names


def captured(op: Op) -> list[ir.Value]:
    """The outside values that an op's regions use, each once."""
    if not op.REGIONS:
        return []
    inside: set[ir.Value] = set()
    used: dict[ir.Value, None] = {}

    def look(block: ir.Block) -> None:
        inside.update(block.arguments)
        for operation in block.operations:
            used.update(dict.fromkeys(operation.operation.operands))
            inside.update(operation.operation.results)
            for region in operation.operation.regions:
                for inner in region.blocks:
                    look(inner)

    for region in op.operation.regions:
        for block in region.blocks:
            look(block)
    return [value for value in used if value not in inside]


def region_symbols(region: ir.Region) -> set[str]:
    """The sizes that only exist inside a region, at any depth."""
    names: set[str] = set()
    for block in region.blocks:
        for operation in block.operations:
            names |= defined_symbols(operation)
            for inner in operation.operation.regions:
                names |= region_symbols(inner)
    return names


def escapes(dim: Dim, inner: set[str]) -> bool:
    """True if a dim has no meaning outside of a region that defines the sizes `inner`."""
    return not symbols(dim).isdisjoint(inner)


def _name(dim: Dim) -> str:
    if isinstance(dim, int) or not dim.is_symbol:
        return ""
    atom = dim.terms[0][0][0]
    return atom.name if isinstance(atom, Symbol) else ""


def _list(types_: list[TensorType]) -> str:
    return ", ".join(map(str, types_)) or "none"


class Group(Op, name="group", traits=Trait.WRITES_IN_PLACE):
    """Fused ops that become one kernel (or a few). The region's arguments are the operands; `burn.yield` terminates it.

    `kind` names the kernel:

    - "loop": pointwise ops and views over one iteration space
    - "reduce": reductions over one space, with the ops before and after
    - "window": one window reduction and its epilogue
    - "contract": one dot_general, block_dot or convolution and its epilogue
    - "attention": one attention and its epilogue
    - "attention_gradient": the gradients of an attention's operands
    - "cumulative": one cumulative reduction
    - "scatter": one op that writes updates at indices read from data
    - "segments": one reduction of ordered updates and its epilogue
    - "split": images split into tiles, along both axes or one
    - "join": tiles joined into images, and the epilogue
    - "concat": one concat and the producers of its operands (a window, a contraction, a join or a loop each)
    """

    inputs: Variadic
    kind: str
    body: Region

    @classmethod
    def infer(cls, inputs: list[TensorType], kind: str) -> list[TensorType]:
        cls.fail("a group's result types are those of its yield")

    def check_types(self, operands: list, results: list[TensorType]) -> None:
        block = self.operation.regions[0].blocks[0]
        if [type_of(a) for a in block.arguments] != operands[0]:
            self.fail("the region's arguments must have the operands' types")
        if [type_of(v) for v in list(block.operations)[-1].operands] != results:
            self.fail("the results must have the types of the yielded values")
        for op in block.operations:
            if isinstance(op.opview, Op):
                op.opview.check()

    @property
    def ops(self) -> list[Op]:
        """The region's ops without the yield."""
        return [op.opview for op in self.operation.regions[0].blocks[0].operations][:-1]

    @property
    def arguments(self) -> list:
        """The region's arguments, one for each operand."""
        return list(self.operation.regions[0].blocks[0].arguments)

    @property
    def yielded(self) -> list:
        return list(list(self.operation.regions[0].blocks[0].operations)[-1].operands)
