"""If, Loop and Scan.

A branch that is known to be taken, and a short loop whose length is known, are simply built where they stand. All else
becomes `burn.if` or `burn.loop`: the regions are built first, in an op that is then given up, because the result types
follow from what the regions yield.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import onnx

from burn.dialect import ops
from burn.dialect.compose import check_size, dim_value, number, reshape, transpose
from burn.dialect.control import If, Loop, escapes, region_symbols, yielded_types
from burn.dialect.dims import Dim, dim_max, symbol
from burn.dialect.mlir import ir
from burn.dialect.types import Container, TensorType, type_of
from burn.errors import ModelError, Problem
from burn.importers.onnx.contents import Content
from burn.importers.onnx.lists import (
    Nothing,
    RunList,
    TensorList,
    container_of,
    flatten,
    is_container,
    merged,
    run_list,
)
from burn.importers.onnx.node import Node, onnx_op
from burn.importers.onnx.ops.sequence import at, to_list

UNROLLED_TRIPS = 8
UNROLLED_NODES = 256
"""A loop of known length is written out up to so many iterations, and so many nodes in all."""

SEQUENCE_NODES = 8192
"""The same for a loop that carries sequences: of those that are written out nothing is left."""

SAID = 3
"""Problems of a branch that a run which takes it is told of."""

FLAG = TensorType("bool", ())
COUNTER = TensorType("int64", ())


def scalar_of(node: Node, value: ir.Value) -> ir.Value:
    """A tensor of one element as a scalar."""
    type_ = type_of(value)
    if any(isinstance(d, int) and d != 1 for d in type_.shape):
        node.fail(f"takes one element, not {type_}")
    return reshape(value, ())


def known_flag(node: Node, value: ir.Value | None) -> bool | None:
    """A condition that is known while importing; an absent one is true."""
    if value is None:
        return True
    content = node.importer.content(value)
    if content is None or content.array.size != 1:
        return None
    element = content.array.reshape(-1)[0]
    return bool(element) if isinstance(element, (bool, int)) else None


# ---- regions --------------------------------------------------------------------------------------------------------
def discard(operation: ir.Operation) -> None:
    """Takes an op out of the program without freeing it: what was noted of its values stays valid.

    Nothing in it may keep pointing at the program, which may be freed before it."""
    dummy = None
    for region in operation.regions:
        for block in region.blocks:
            with ir.InsertionPoint.at_block_begin(block):
                dummy = number(0, "int64")
    for inner in (operation, *_inside(operation)):
        for index in range(len(inner.operands)):
            inner.operands[index] = dummy
    operation.detach_from_parent()


def _inside(operation: ir.Operation) -> list[ir.Operation]:
    found = []
    for region in operation.regions:
        for block in region.blocks:
            for op in block.operations:
                found += [op.operation, *_inside(op.operation)]
    return found


def move_regions(source: ir.Operation, target: ir.Operation) -> None:
    for old, new in zip(source.regions, target.regions, strict=True):
        old.blocks[0].append_to(new)
    source.erase()


class Symbols:
    """The sizes that a control-flow op defines, noted as they are made."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.names: list[str] = []

    def new(self, hint: str) -> Dim:
        self.names.append(self.node.fresh(hint))
        return symbol(self.names[-1])


# ---- If -------------------------------------------------------------------------------------------------------------
@onnx_op("If")
def if_(node: Node) -> list[Any]:
    branches = (node.graph("then_branch"), node.graph("else_branch"))
    known = known_flag(node, node.required(0))
    if known is not None:
        return node.build_subgraph(branches[0 if known else 1], [])
    then, otherwise = (lambda graph=graph: node.build_subgraph(graph, []) for graph in branches)
    wanted = [container_of(value.type) for value in branches[0].output]
    return choose(node, scalar_of(node, node.required(0)), then, otherwise, wanted)


def choose(
    node: Node,
    condition: ir.Value,
    then: Callable[[], list[Any]],
    otherwise: Callable[[], list[Any]],
    wanted: Sequence[Container | None] = (),
) -> list[Any]:
    """What `then` or `otherwise` builds, as the program finds the condition. wanted: what the model says of results that are
    sequences or optionals."""
    drafts, given, reasons = [], [], []
    for branch in (then, otherwise):
        draft, values, problems = _branch(node, condition, branch)
        drafts.append(draft)
        given.append(values)
        reasons.append(problems)
    if any(reasons):
        return _other(node, condition, (then, otherwise), drafts, reasons)
    blocks = [draft.regions[0].blocks[0] for draft in drafts]
    for index, pair in enumerate(zip(*given, strict=True)):
        if flatten(pair[0])[2] != flatten(pair[1])[2]:
            lists = _alike(node, blocks, pair, wanted[index] if index < len(wanted) else None)
            given[0][index], given[1][index] = lists
    rebuild = []
    for block, values in zip(blocks, given, strict=True):
        with ir.InsertionPoint(block):
            flat = [flatten(value) for value in values]
            ops.yield_([leaf for leaves, _, _ in flat for leaf in leaves])
            rebuild = [(build, len(leaves)) for leaves, build, _ in flat]
    symbols = Symbols(node)
    regions = [draft.regions[0] for draft in drafts]
    inner = region_symbols(regions[0]) | region_symbols(regions[1])
    pairs = list(zip(*(yielded_types(region) for region in regions), strict=True))
    if any(a.dtype == b.dtype and a.rank != b.rank for a, b in pairs):
        for draft in drafts:
            discard(draft)
        return (then if _insist(node, condition, pairs) else otherwise)()
    types = [_either(node, a, b, inner, symbols) for a, b in pairs]
    final = If.create(condition, result_types=types, symbols=tuple(symbols.names))
    for block, region in zip(blocks, final.regions, strict=True):
        block.append_to(region)
    for draft in drafts:
        draft.erase()
    values, results = list(final.results), []
    for build, count in rebuild:
        results.append(build(values[:count]))
        values = values[count:]
    return results


def _branch(node: Node, condition: ir.Value, build: Callable[[], list[Any]]) -> tuple[Any, list[Any], list[Problem]]:
    """A branch in the first region of an op that is given up later, what it gives, and the problems that it met. It is built
    again, in another op, while a search changes what was chosen in it."""
    drafts = []

    def attempt() -> list[Any]:
        for draft in drafts:
            discard(draft)
        drafts[:] = [If.create(condition, result_types=[])]
        with ir.InsertionPoint(drafts[0].regions[0].blocks.append()):
            return build()

    values, problems = node.attempt(attempt)
    return drafts[0], values, problems


def _other(
    node: Node,
    condition: ir.Value,
    branches: Sequence[Callable[[], list[Any]]],
    drafts: Sequence[ir.Operation],
    reasons: Sequence[Sequence[Problem]],
) -> list[Any]:
    """What remains of branches that cannot be built: the other one, as long as no run takes it. Fails where there is none."""
    for draft in drafts:
        discard(draft)
    if all(reasons):
        node.importer.problems += [problem for found in reasons for problem in found]
        raise ModelError("neither branch can be imported", [node.problem("neither of its branches can be imported")])
    taken = 1 if reasons[0] else 0
    why = "; ".join(str(problem) for problem in reasons[1 - taken][:SAID])
    more = len(reasons[1 - taken]) - SAID
    why += f", and {more} more" if more > 0 else ""
    name = ("else", "then")[taken]
    _only(node, condition, taken == 0, f"the {name} branch of this If cannot be imported: {why}")
    return branches[taken]()


def _only(node: Node, condition: ir.Value, taken: bool, says: str) -> None:
    """Ends every run that finds the condition otherwise."""
    found = node.read_dim(ops.cast(condition, dtype="int64"), hint="branch")
    check_size(found, "==", int(taken), says)


def _alike(node: Node, blocks: Sequence[ir.Block], pair: tuple[Any, Any], wanted: Container | None) -> list[RunList]:
    """What two branches give, as lists of the program of one kind."""
    if not all(map(is_container, pair)) and wanted is None:
        node.fail("one branch gives a tensor and the other a sequence or an optional; the condition must be a constant")
    lists = []
    for block, value in zip(blocks, pair, strict=True):
        with ir.InsertionPoint(block):
            lists.append(run_list(value, wanted))
    known = [items for items in lists if items is not None]
    for i, (block, value) in enumerate(zip(blocks, pair, strict=True)):
        if lists[i] is None and known:  # nothing, of what only the other branch tells
            with ir.InsertionPoint(block):
                lists[i] = run_list(value, known[0].container)
    first, second = lists
    if first is None or second is None:
        node.fail("the branches give sequences or optionals of different elements; the condition must be a constant")
    container = second.container if first.empty else first.container if second.empty else None
    container = container or merged(first.container, second.container)
    if container is None:
        node.fail(f"one branch gives a {first.container} and the other a {second.container}")
    return [replace(items, container=container, empty=first.empty and second.empty) for items in (first, second)]


def _insist(node: Node, condition: ir.Value, pairs: Sequence[tuple[TensorType, TensorType]]) -> bool:
    """Which branch is built where they give values of different ranks, which no program can hold: the one that the model
    declares, or else that of more axes (`squeeze if the size is 1`), or else the one that later nodes take. A run that finds the
    condition otherwise ends."""
    ranks = [(a.rank, b.rank, said) for (a, b), said in zip(pairs, node.declared_ranks(), strict=False)]
    decided = [said == one for one, other, said in ranks if one != other and said in (one, other)]
    likely = decided[0] if decided else all(one >= other for one, other, _ in ranks)
    taken = likely != bool(node.pick(2))
    says = "the branches of this If give values of different ranks: a program is for one of them. Fix the sizes that decide"
    _only(node, condition, taken, says)
    return taken


def _either(node: Node, a: TensorType, b: TensorType, inner: set[str], symbols: Symbols) -> TensorType:
    """The type of a value that is one of two."""
    if a.dtype != b.dtype or a.rank != b.rank:
        node.fail(f"one branch gives {a} and the other {b}; only sizes may differ, unless the condition is a constant")
    pairs = zip(a.shape, b.shape, strict=True)
    return a.with_shape(tuple(x if x == y and not escapes(x, inner) else symbols.new("if_size") for x, y in pairs))


# ---- loops ----------------------------------------------------------------------------------------------------------
@dataclass
class Step:
    """What one iteration gives: the next condition (None: go on), carried values, and slices of output."""

    condition: ir.Value | None
    carried: list[Any]
    slices: list[ir.Value]


Body = Callable[[ir.Value, ir.Value, list[Any]], Step]
"""(iteration, condition, carried) -> the step; builds at the insertion point."""


@dataclass
class Trips:
    """How often a loop runs: as a value, as a size where it is known, and whether a condition can end it."""

    value: ir.Value | None
    count: Dim | None
    condition: ir.Value | None = None


@onnx_op("Loop")
def loop(node: Node) -> list[Any]:
    """A scan output of a loop that does not run is [0, ...] with the sizes of a slice: its rank is the slice's and one, as type
    inference of the specification has it. (ONNX Runtime gives [0] there.)"""
    graph = node.graph("body")
    initial = list(node.inputs[2:])
    if any(value is None for value in initial):
        node.fail("a carried value has no initial value")
    if len(graph.input) != 2 + len(initial) or len(graph.output) < 1 + len(initial):
        node.fail(
            f"the body takes {len(graph.input)} and gives {len(graph.output)} values for {len(initial)} carried", "body"
        )
    count = node.dims(0) if node.has_input(0) else None
    start = node.input(1)
    if known_flag(node, start) is False:
        trips = Trips(number(0, "int64"), 0)
    else:
        trips = Trips(
            scalar_of(node, node.required(0)) if node.has_input(0) else None,
            dim_max(count[0], 0) if count is not None else None,
            None if known_flag(node, start) else scalar_of(node, node.required(1)),
        )

    def body(iteration: ir.Value, condition: ir.Value, carried: list[Any]) -> Step:
        go_on, *values = node.build_subgraph(graph, [iteration, condition, *carried])
        return Step(go_on, values[: len(initial)], values[len(initial) :])

    scans = len(graph.output) - 1 - len(initial)
    finals, stacked = repeat(node, trips, initial, scans, body, len(graph.node), _goes_on(graph))
    for index, value in enumerate(finals):  # it may come in as an optional, and go out as what that is of
        declared = container_of(graph.output[1 + index].type)
        if (
            isinstance(value, RunList)
            and value.is_optional
            and declared is not None
            and declared.kinds[0] != "optional"
        ):
            finals[index] = at(node, value, None)
    return [*finals, *stacked]


def _goes_on(graph: onnx.GraphProto) -> bool:
    """Whether a body's condition plainly never ends the loop: it is passed through, or a constant true."""
    name = graph.output[0].name
    made = {output: n for n in graph.node for output in n.output}
    while name in made and made[name].op_type == "Identity":
        name = made[name].input[0]
    tensor = next((t for t in graph.initializer if t.name == name), None)
    if name in made and made[name].op_type == "Constant":
        tensor = next((a.t for a in made[name].attribute if a.name == "value"), None)
    if tensor is not None and tensor.data_type == onnx.TensorProto.BOOL:
        return bool(tensor.int32_data and tensor.int32_data[0]) or tensor.raw_data == b"\x01"
    return name == graph.input[1].name


def repeat(
    node: Node, trips: Trips, initial: list[Any], scans: int, body: Body, nodes: int, goes_on: bool
) -> tuple[list[Any], list[ir.Value]]:
    """The final carried values and the stacked slices."""
    fixed = isinstance(trips.count, int) and trips.condition is None and goes_on
    structured = any(isinstance(value, (TensorList, Nothing)) for value in initial)
    if fixed:
        assert isinstance(trips.count, int)
        size = trips.count * max(nodes, 1)
        short = 0 < trips.count <= UNROLLED_TRIPS and size <= UNROLLED_NODES
        if short or (structured and size <= SEQUENCE_NODES):
            return _unrolled(node, trips.count, initial, scans, body)
    return _looped(node, trips, initial, scans, body)


def _unrolled(node: Node, count: int, initial: list[Any], scans: int, body: Body) -> tuple[list[Any], list[ir.Value]]:
    carried = initial
    rows: list[list[ir.Value]] = [[] for _ in range(scans)]
    for index in range(count):
        iteration = node.known(Content.of("int64", index))
        step = body(iteration, node.known(Content.of("bool", True)), carried)
        carried = step.carried
        for row, slice_ in zip(rows, step.slices, strict=True):
            row.append(reshape(slice_, (1, *type_of(slice_).shape)))
    if scans and not count:
        node.fail("a loop of no iterations gives slices of unknown type")
    return carried, [ops.concat(row, axis=0) if len(row) > 1 else row[0] for row in rows]


def _looped(node: Node, trips: Trips, given: list[Any], scans: int, body: Body) -> tuple[list[Any], list[ir.Value]]:
    """Builds the body until the carried values' types hold: each time, sizes that turn out to change become symbols. Carried
    sequences and optionals are lists of the program; what is known of their elements holds in the end, too."""
    lists = {i: to_list(node, value, _carried_as(node, i)) for i, value in enumerate(given) if is_container(value)}
    initial = [lists[i].value if i in lists else value for i, value in enumerate(given)]
    starts = [type_of(value) for value in initial]
    changing: set[tuple[int, int]] = set()
    while True:
        symbols = Symbols(node)
        types = [
            t.with_shape(tuple(symbols.new("loop_size") if (i, a) in changing else d for a, d in enumerate(t.shape)))
            for i, t in enumerate(starts)
        ]
        draft = Loop.create(None, None, initial, result_types=[])
        block = draft.regions[0].blocks.append(*[t.to_mlir() for t in (COUNTER, FLAG, *types)])
        iteration, condition, *carried = block.arguments
        with ir.InsertionPoint(block), node.importer.program.iterating(iteration):
            step = body(iteration, condition, _with_lists(carried, lists))
            known = _unlist(node, step, lists)
            next_condition = condition if step.condition is None else scalar_of(node, step.condition)
            for value in (*step.carried, *step.slices):
                if not isinstance(value, ir.Value):
                    node.fail("a tensor that the loop carries becomes a sequence or an optional, or is stacked as one")
            endless = next_condition == condition or known_flag(node, next_condition) is True
            ops.yield_([next_condition, *step.carried, *step.slices])
        found = _changes(node, types, [type_of(value) for value in step.carried], region_symbols(draft.regions[0]))
        if found <= changing and known == {i: (items.container, items.empty) for i, items in lists.items()}:
            break
        changing |= found
        lists = {i: replace(lists[i], container=container, empty=empty) for i, (container, empty) in known.items()}
        discard(draft)
    inner = region_symbols(draft.regions[0]) | set(symbols.names)
    finals = [
        t.with_shape(tuple(symbols.new("loop_size") if (i, a) in changing else d for a, d in enumerate(t.shape)))
        for i, t in enumerate(starts)
    ]
    certain = endless and trips.condition is None and trips.count is not None
    length = trips.count if certain else symbols.new("loop_trips") if scans else 0
    assert length is not None
    stacked = []
    for slice_ in step.slices:
        t = type_of(slice_)
        shape = tuple(symbols.new("loop_size") if escapes(d, inner) else d for d in t.shape)
        stacked.append(t.with_shape((length, *shape)))
    condition = None if endless and trips.condition is None else trips.condition
    if condition is None and not endless:
        condition = number(True, "bool")
    if trips.value is None and condition is None:
        node.fail("the loop never ends: it has neither a trip count nor a condition that can become false")
    final = Loop.create(
        trips.value, condition, initial, scans=scans, symbols=tuple(symbols.names), result_types=[*finals, *stacked]
    )
    move_regions(draft, final)
    results = list(final.results)
    return _with_lists(results[: len(initial)], lists), results[len(initial) :]


def _carried_as(node: Node, index: int) -> Container | None:
    """What the model says of a carried value that is a sequence or an optional."""
    if node.op != "Loop":
        return None
    return container_of(node.graph("body").input[2 + index].type)


def _with_lists(values: Sequence[ir.Value], lists: Mapping[int, RunList]) -> list[Any]:
    return [replace(lists[i], value=value) if i in lists else value for i, value in enumerate(values)]


def _unlist(node: Node, step: Step, lists: Mapping[int, RunList]) -> dict[int, tuple[Container, bool]]:
    """Puts the values of lists into their places in the step; returns what is known of them, before and after it."""
    known = {}
    for i, items in lists.items():
        after = to_list(node, step.carried[i], items.container)
        container = items.container if after.empty else after.container
        container = container if items.empty else merged(items.container, container)
        if container is None:
            node.fail(f"carried value {i} is a {items.container} before an iteration and a {after.container} after it")
        known[i] = (container, items.empty and after.empty)
        step.carried[i] = after.value
    return known


def _changes(
    node: Node, have: Sequence[TensorType], given: Sequence[TensorType], inner: set[str]
) -> set[tuple[int, int]]:
    """The axes (value, axis) whose size after an iteration is not what it was before."""
    found = set()
    for index, (a, b) in enumerate(zip(have, given, strict=True)):
        if a.dtype != b.dtype or a.rank != b.rank:
            node.fail(f"carried value {index} is {a} before an iteration and {b} after it; only sizes may change")
        pairs = enumerate(zip(a.shape, b.shape, strict=True))
        found |= {(index, axis) for axis, (x, y) in pairs if x != y or escapes(y, inner)}
    return found


# ---- Scan -----------------------------------------------------------------------------------------------------------
@onnx_op("Scan")
def scan(node: Node) -> list[ir.Value]:
    if node.opset < 9:
        return _batched_scan(node)
    count = node.int("num_scan_inputs")
    states, inputs = [node.required(i) for i in range(len(node.inputs))], []
    if not 0 < count <= len(states):
        node.fail(f"is {count} of {len(states)} operands", "num_scan_inputs")
    states, inputs = states[: len(states) - count], states[len(states) - count :]
    axes = node.ints("scan_input_axes", (0,) * count)
    backwards = node.ints("scan_input_directions", (0,) * count)
    outputs = len(node.graph("body").output) - len(states)
    out_axes = node.ints("scan_output_axes", (0,) * outputs)
    out_backwards = node.ints("scan_output_directions", (0,) * outputs)
    for name, given, wanted in (
        ("scan_input_axes", axes, count),
        ("scan_input_directions", backwards, count),
        ("scan_output_axes", out_axes, outputs),
        ("scan_output_directions", out_backwards, outputs),
    ):
        if len(given) != wanted:
            node.fail(f"has {len(given)} entries, not {wanted}", name)
    axes = tuple(node.axis(a, type_of(x).rank, "scan_input_axes") for a, x in zip(axes, inputs, strict=True))
    finals, stacked = _scan(node, states, inputs, axes, backwards)
    results = []
    for value, axis, reverse in zip(stacked, out_axes, out_backwards, strict=True):
        rank = type_of(value).rank
        axis = node.axis(axis, rank, "scan_output_axes")
        value = _reversed(value) if reverse else value
        results.append(transpose(value, (*range(1, axis + 1), 0, *range(axis + 1, rank))))
    return [*finals, *results]


def _scan(
    node: Node, states: list[ir.Value], inputs: list[ir.Value], axes: Sequence[int], backwards: Sequence[int]
) -> tuple[list[ir.Value], list[ir.Value]]:
    graph = node.graph("body")
    length = type_of(inputs[0]).shape[axes[0]]
    for value, axis in zip(inputs, axes, strict=True):
        other = type_of(value).shape[axis]
        if isinstance(other, int) and isinstance(length, int) and other != length:
            node.fail(f"walks {length} and {other} elements together", "scan_input_axes")
        length = other if isinstance(other, int) else length

    def body(iteration: ir.Value, condition: ir.Value, carried: list[Any]) -> Step:
        slices = []
        for value, axis, reverse in zip(inputs, axes, backwards, strict=True):
            place = ops.sub(dim_value(length - 1), iteration) if reverse else iteration
            slices.append(ops.gather(value, place, axis=axis))
        results = node.build_subgraph(graph, [*carried, *slices])
        return Step(None, results[: len(states)], results[len(states) :])

    scans = len(graph.output) - len(states)
    return repeat(node, Trips(dim_value(length), length), states, scans, body, len(graph.node), goes_on=True)


def _reversed(value: ir.Value) -> ir.Value:
    shape = type_of(value).shape
    rest = len(shape) - 1
    return ops.slice(value, starts=(shape[0] - 1, *[0] * rest), sizes=shape, steps=(-1, *[1] * rest))


def _batched_scan(node: Node) -> list[ir.Value]:
    """Opset 8: every operand has a batch axis first, and the scan runs once for each place of it."""
    if node.has_input(0):
        node.fail("sequence_lens is not supported")
    count = node.int("num_scan_inputs")
    values = [node.required(i) for i in range(1, len(node.inputs))]
    if not 0 < count <= len(values):
        node.fail(f"is {count} of {len(values)} operands", "num_scan_inputs")
    states, inputs = values[: len(values) - count], values[len(values) - count :]
    backwards = node.ints("directions", (0,) * count)
    if len(backwards) != count:
        node.fail(f"has {len(backwards)} entries, not {count}", "directions")
    for group, least in ((states, 1), (inputs, 2)):
        for value in group:
            if type_of(value).rank < least:
                node.fail(f"operands have a batch axis first, then one to walk along, not {type_of(value)}")
    batch = type_of(values[0]).shape[0]

    def body(iteration: ir.Value, condition: ir.Value, carried: list[Any]) -> Step:
        own = [[ops.gather(value, iteration, axis=0) for value in group] for group in (states, inputs)]
        finals, stacked = _scan(node, own[0], own[1], (0,) * count, backwards)
        return Step(None, [], [*finals, *stacked])

    outputs = len(node.graph("body").output)
    nodes = len(node.graph("body").node)
    return repeat(node, Trips(dim_value(batch), batch), [], outputs, body, nodes * UNROLLED_TRIPS, goes_on=True)[1]
