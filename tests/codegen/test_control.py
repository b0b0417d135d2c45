"""`if` and `loop` in compiled programs, against the same thing written in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from running import call, compiled, same

from burn.dialect import ops
from burn.dialect.control import If, Loop, yielded_types
from burn.dialect.dims import Dim, symbol
from burn.dialect.mlir import ir
from burn.dialect.program import Program
from burn.dialect.types import TensorType, type_of
from burn.errors import BurnError

FLOAT, INT, BOOL = "float32", "int64", "bool"
N, M = symbol("n"), symbol("m")
COUNT = TensorType(INT, ())


def number(value: float, dtype: str = FLOAT) -> ir.Value:
    return ops.full(shape=(), dtype=dtype, value=float(value))


def loop(
    trips: ir.Value | None,
    condition: ir.Value | None,
    carried: Sequence[ir.Value],
    body: Callable[..., tuple[ir.Value | None, list[ir.Value], list[ir.Value]]],
    results: Sequence[TensorType],
    arguments: Sequence[TensorType] | None = None,
    symbols: tuple[str, ...] = (),
) -> list[ir.Value]:
    """`body(iteration, *carried)` gives the condition to go on (None: as it is), the carried values and the slices."""
    scans = len(results) - len(carried)
    op = Loop.create(trips, condition, carried, scans=scans, symbols=symbols, result_types=results)
    types_ = [COUNT, TensorType(BOOL, ()), *(arguments or [type_of(v) for v in carried])]
    block = op.regions[0].blocks.append(*[t.to_mlir() for t in types_])
    with ir.InsertionPoint(block):
        iteration, going, *inner = block.arguments
        go_on, values, slices = body(iteration, *inner)
        ops.yield_([going if go_on is None else go_on, *values, *slices])
    op.opview.check()
    return list(op.results)


def either(
    condition: ir.Value,
    then: Callable[[], list[ir.Value]],
    otherwise: Callable[[], list[ir.Value]],
    results: Sequence[TensorType],
    symbols: tuple[str, ...] = (),
) -> list[ir.Value]:
    op = If.create(condition, symbols=symbols, result_types=results)
    for region, branch in zip(op.regions, (then, otherwise), strict=True):
        with ir.InsertionPoint(region.blocks.append()):
            ops.yield_(branch())
    assert len(yielded_types(op.regions[0])) == len(results)
    op.opview.check()
    return list(op.results)


def vector(dtype: str, *shape: Dim) -> TensorType:
    return TensorType(dtype, shape)


def floats(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-9, 9, shape).astype(np.float32)


def scalar(value: int | bool) -> np.ndarray:
    return np.array(value)


# ---- loops of known length -------------------------------------------------------------------------------------------
def running_sums(x, trips):
    """Carries a sum, stacks what it was and its double."""

    def body(iteration, total):
        total = ops.add(total, ops.cast(iteration, dtype=FLOAT))
        return None, [total], [total, ops.mul(total, number(2.0))]

    stack = vector(FLOAT, symbol("t"), *type_of(x).shape)
    return loop(trips, None, [x], body, [type_of(x), stack, stack], symbols=("t",))


def python_sums(x: np.ndarray, trips: int) -> list[np.ndarray]:
    rows = [x + sum(range(k + 1)) for k in range(trips)]
    stack = np.array(rows, np.float32).reshape(max(trips, 0), *x.shape)
    return [rows[-1] if rows else x, stack, stack * np.float32(2)]


def test_trip_count_from_data() -> None:
    function = compiled([vector(FLOAT, N, 3), COUNT], running_sums)
    for trips in (0, 1, 2, 7, 100, -3):
        for rows in (0, 1, 5):
            x = floats(rows, 3)
            same(call(function, x, scalar(trips)), python_sums(x, trips))


@pytest.mark.parametrize("length", [0, 1, 9])
def test_slices_lie_in_the_output_where_the_length_is_known(length: int) -> None:
    """A slice is written in place by the kernel that makes it; one also carried, or yielded twice, is copied."""

    def build(x):
        def body(iteration, total):
            total = ops.add(total, number(1.0))
            return None, [total], [total, ops.neg(total), total]

        stack = vector(FLOAT, length, N)
        trips = ops.full(shape=(), dtype=INT, value=float(length))
        return loop(trips, None, [x], body, [vector(FLOAT, N), stack, stack, stack])

    function = compiled([vector(FLOAT, N)], build)
    for n in (0, 1, 33):
        x = floats(n)
        rows = np.array([x + k + 1 for k in range(length)], np.float32).reshape(length, n)
        same(call(function, x), [x + np.float32(length), rows, -rows, rows])


def test_carried_values_swap() -> None:
    """Fibonacci with vectors: each carried value becomes the other's next; a third is never changed."""

    def build(a, b, c, trips):
        def body(iteration, a, b, c):
            return None, [b, ops.add(a, b), c], []

        return loop(trips, None, [a, b, c], body, [type_of(a)] * 2 + [type_of(c)])

    function = compiled([vector(FLOAT, N), vector(FLOAT, N), vector(FLOAT, 2, 2), COUNT], build)
    for trips in (0, 1, 2, 11):
        a, b, c = floats(5), floats(5, seed=1), floats(2, 2, seed=2)
        want = [a, b]
        for _ in range(trips):
            want = [want[1], want[0] + want[1]]
        same(call(function, a, b, c, scalar(trips)), [*want, c])


def test_swapped_and_doubled_values() -> None:
    def build(a, b, trips):
        return loop(trips, None, [a, b, a], lambda i, a, b, c: (None, [b, a, b], []), [type_of(a)] * 3)

    function = compiled([vector(FLOAT, 4), vector(FLOAT, 4), COUNT], build)
    a, b = floats(4), floats(4, seed=1)
    same(call(function, a, b, scalar(0)), [a, b, a])
    same(call(function, a, b, scalar(1)), [b, a, b])
    same(call(function, a, b, scalar(2)), [a, b, a])


def test_slices_of_no_elements_where_the_length_is_found() -> None:
    """That their bytes are 0 however long the loop runs does not make the stack's length known."""

    def build(x, stop):
        def body(iteration, v):
            return ops.lt(iteration, stop), [ops.neg(v)], [ops.exp(v)]

        return loop(None, None, [x], body, [type_of(x), vector(FLOAT, symbol("t"), 3, 0)], symbols=("t",))

    function = compiled([vector(FLOAT, 3, 0), COUNT], build)
    for stop in (0, 4):
        same(call(function, floats(3, 0), scalar(stop)), [floats(3, 0), np.zeros((stop + 1, 3, 0), np.float32)])


def test_an_outer_value_carried_on() -> None:
    """The body yields a value from outside, and reads it in every iteration."""

    def build(x, y, trips):
        outer = ops.mul(y, number(3.0))
        late = ops.sub(x, number(1.0))  # may not take outer's memory: the loop reads outer to its end

        def body(iteration, a, b):
            return None, [outer, ops.add(b, ops.add(outer, a))], [outer]

        found = loop(trips, None, [x, late], body, [type_of(x)] * 2 + [vector(FLOAT, symbol("t"), N)], symbols=("t",))
        return [*found, late]

    function = compiled([vector(FLOAT, N), vector(FLOAT, N), COUNT], build)
    for trips in (0, 1, 4):
        x, y = floats(6), floats(6, seed=1)
        a, b = x, x - 1
        for _ in range(trips):
            a, b = y * 3, b + (y * 3 + a)
        same(call(function, x, y, scalar(trips)), [a, b, np.tile(y * 3, (trips, 1)), x - 1])


def test_reshaped_views_of_carried_values() -> None:
    def build(x, trips):
        def body(iteration, v):
            flat = ops.reshape(v, shape=(N * 2,))
            return None, [ops.reshape(ops.add(flat, number(1.0)), shape=(N, 2))], [flat]

        (last, stack) = loop(
            trips, None, [x], body, [vector(FLOAT, N, 2), vector(FLOAT, symbol("t"), N * 2)], symbols=("t",)
        )
        return [ops.reshape(last, shape=(2, N)), ops.reshape(stack, shape=(symbol("t") * N, 2))]

    function = compiled([vector(FLOAT, N, 2), COUNT], build)
    for trips in (0, 3):
        x = floats(3, 2)
        rows = np.array([x + k for k in range(trips)], np.float32).reshape(trips * 3, 2)
        same(call(function, x, scalar(trips)), [(x + np.float32(trips)).reshape(2, 3), rows])


# ---- loops that end themselves ---------------------------------------------------------------------------------------
def collatz(x):
    """x -> x / 2 or 3 x + 1 until it is 1; stacks what it went through."""

    def body(iteration, v):
        halved = ops.div(v, number(2, INT))
        odd = ops.eq(ops.sub(v, ops.mul(halved, number(2, INT))), number(1, INT))
        following = ops.select(odd, ops.add(ops.mul(v, number(3, INT)), number(1, INT)), halved)
        return ops.ne(following, number(1, INT)), [following], [following]

    start = ops.ne(x, number(1, INT))
    return loop(None, start, [x], body, [COUNT, vector(INT, symbol("t"))], symbols=("t",))


def python_collatz(x: int) -> list[int]:
    path = []
    while x != 1:
        x = x // 2 if x % 2 == 0 else 3 * x + 1
        path.append(x)
    return path


def test_condition_from_data() -> None:
    function = compiled([COUNT], collatz)
    for x in (1, 2, 7, 27, 97):
        same(call(function, scalar(x)), [scalar(1), np.array(python_collatz(x), np.int64)])


def test_whichever_ends_first() -> None:
    """A trip count and a condition; the body reads both the iteration and the condition."""

    def build(trips, go, stop):
        op = Loop.create(
            trips, go, [number(0, INT)], scans=1, symbols=("t",), result_types=[COUNT, vector(BOOL, symbol("t"))]
        )
        block = op.regions[0].blocks.append(*[t.to_mlir() for t in (COUNT, TensorType(BOOL, ()), COUNT)])
        with ir.InsertionPoint(block):
            iteration, going, total = block.arguments
            ops.yield_([ops.lt(iteration, stop), ops.add(total, iteration), going])
        return list(op.results)

    function = compiled([COUNT, TensorType(BOOL, ()), COUNT], build)
    for trips, go, stop in ((5, True, 9), (9, True, 3), (0, True, 3), (4, False, 3), (3, True, -1)):
        n = min(trips, max(stop, 0) + 1) if go else 0
        same(call(function, scalar(trips), scalar(go), scalar(stop)), [scalar(sum(range(n))), np.ones(n, bool)])


# ---- sizes that change -----------------------------------------------------------------------------------------------
def test_a_carried_value_grows() -> None:
    """x, then x x, then x x x ...: the size is carried along, also if it is 0."""

    def build(x, trips):
        here, after = vector(FLOAT, symbol("here")), vector(FLOAT, symbol("after"))

        def body(iteration, v):
            return None, [ops.concat([v, ops.add(x, ops.cast(iteration, dtype=FLOAT))], axis=0)], []

        (last,) = loop(trips, None, [x], body, [after], [here], ("here", "after"))
        return [last, ops.reduce(last, kind="sum", axes=(0,)), ops.mul(last, number(2.0))]

    function = compiled([vector(FLOAT, N), COUNT], build)
    for n in (0, 1, 5):
        for trips in (0, 1, 2, 40):
            x = floats(n)
            want = np.concatenate([x, *(x + np.float32(k) for k in range(trips))])
            same(call(function, x, scalar(trips)), [want, want.sum(dtype=FLOAT), want * 2])


def test_a_carried_value_shrinks_and_grows() -> None:
    """A filter in a loop: the body's own sizes come from data; a slice of fixed size is stacked beside."""

    def build(x, trips):
        here, after = vector(FLOAT, symbol("here")), vector(FLOAT, symbol("after"))

        def body(iteration, v):
            indices = ops.nonzero(ops.gt(v, ops.cast(iteration, dtype=FLOAT)), count="kept")
            kept = ops.gather(v, ops.reshape(indices, shape=(symbol("kept"),)), axis=0)
            count = ops.dim_values(dims=(symbol("kept"),), scalar=True)
            first = ops.sub(number(0, INT), count)
            return ops.gt(count, number(1, INT)), [kept], [ops.mul(first, number(-1, INT))]

        types_ = [after, vector(INT, symbol("t"))]
        return loop(trips, None, [x], body, types_, [here], ("here", "after", "t"))

    function = compiled([vector(FLOAT, N), COUNT], build)
    for n, trips in ((0, 3), (30, 0), (30, 1), (30, 100)):
        x = floats(n)
        v, counts = x, []
        for k in range(trips):
            v = v[v > k]
            counts.append(len(v))
            if len(v) <= 1:
                break
        same(call(function, x, scalar(trips)), [v, np.array(counts, np.int64)])


def test_slices_of_a_size_that_the_body_finds() -> None:
    """Every iteration must find the same size."""

    def build(x):
        def body(iteration):
            row = ops.reshape(ops.gather(x, iteration, axis=0), shape=(M,))
            found = ops.nonzero(row, count="found")
            return None, [], [ops.reshape(found, shape=(symbol("found"),))]

        shape = vector(INT, symbol("t"), symbol("width"))
        trips = ops.dim_values(dims=(N,), scalar=True)
        return loop(trips, None, [], body, [shape], [], ("t", "width"))

    function = compiled([vector(FLOAT, N, M)], build, node="rows")
    x = np.zeros((3, 5), np.float32)
    x[np.arange(3), [1, 2, 4]] = 1
    x[:, 0] = 2
    same(call(function, x), [np.array([[0, 1], [0, 2], [0, 4]])])
    same(call(function, np.zeros((0, 5), np.float32)), [np.zeros((0, 0), np.int64)])
    x[1, 3] = 1
    with pytest.raises(BurnError, match="rows"):
        function(x)


# ---- nesting ---------------------------------------------------------------------------------------------------------
def test_nested_loops() -> None:
    """A table of sums: rows stacked of elements stacked; the inner trip count is the outer iteration."""

    def build(x, trips):
        def body(outer, total):
            def inner(step, inside):
                inside = ops.add(inside, ops.cast(ops.add(outer, step), dtype=FLOAT))
                return None, [inside], [inside]

            types_ = [type_of(x), vector(FLOAT, symbol("t"), N)]
            last, rows = loop(outer, None, [total], inner, types_, symbols=("t",))
            return None, [last], [ops.reduce(rows, kind="sum", axes=(0,))]

        return loop(trips, None, [x], body, [type_of(x), vector(FLOAT, symbol("s"), N)], symbols=("s",))

    function = compiled([vector(FLOAT, N), COUNT], build)
    for trips in (0, 1, 6):
        x = floats(4)
        total, rows = x, []
        for outer in range(trips):
            row = np.zeros(4, np.float32)
            for step in range(outer):
                total = total + np.float32(outer + step)
                row = row + total
            rows.append(row)
        same(call(function, x, scalar(trips)), [total, np.array(rows, np.float32).reshape(trips, 4)])


def test_nested_loops_whose_sizes_change() -> None:
    def build(x, trips):
        def body(outer, v):
            def inner(step, w):
                return None, [ops.concat([w, x], axis=0)], []

            types_ = vector(FLOAT, symbol("inner_here")), vector(FLOAT, symbol("inner_after"))
            (last,) = loop(outer, None, [v], inner, [types_[1]], [types_[0]], ("inner_here", "inner_after"))
            return None, [ops.add(last, number(1.0))], []

        types_ = vector(FLOAT, symbol("here")), vector(FLOAT, symbol("after"))
        return loop(trips, None, [x], body, [types_[1]], [types_[0]], ("here", "after"))

    function = compiled([vector(FLOAT, N), COUNT], build)
    for n, trips in ((3, 0), (3, 1), (3, 5), (0, 4)):
        x = v = floats(n)
        for outer in range(trips):
            for _ in range(outer):
                v = np.concatenate([v, x])
            v = v + 1
        same(call(function, x, scalar(trips)), [v])


def test_a_branch_in_a_loop() -> None:
    """Either branch may yield a value from outside, a carried one, or one of a size of its own."""

    def build(x, trips):
        doubled = ops.mul(x, number(2.0))

        def body(iteration, v, kept):
            even = ops.eq(ops.mod(iteration, number(2, INT)), number(0, INT))
            size = symbol("taken")

            def filtered():
                indices = ops.nonzero(ops.gt(v, number(0.0)), count="positive")
                return [ops.gather(v, ops.reshape(indices, shape=(symbol("positive"),)), axis=0), doubled]

            (taken, picked) = either(
                even, filtered, lambda: [v, kept], [vector(FLOAT, size), vector(FLOAT, N)], ("taken",)
            )
            return None, [ops.sub(taken, number(1.0)), ops.add(picked, number(1.0))], [picked]

        results = [vector(FLOAT, symbol("after")), vector(FLOAT, N), vector(FLOAT, symbol("t"), N)]
        arguments = [vector(FLOAT, symbol("here")), vector(FLOAT, N)]
        return loop(trips, None, [x, x], body, results, arguments, ("here", "after", "t"))

    function = compiled([vector(FLOAT, N), COUNT], build)
    for n, trips in ((0, 3), (20, 0), (20, 1), (20, 2), (20, 9)):
        x = floats(n)
        v, kept, rows = x, x, []
        for k in range(trips):
            v, picked = (v[v > 0], x * 2) if k % 2 == 0 else (v, kept)
            rows.append(picked)
            v, kept = v - 1, picked + 1
        same(call(function, x, scalar(trips)), [v, kept, np.array(rows, np.float32).reshape(trips, n)])


# ---- branches --------------------------------------------------------------------------------------------------------
def test_branches_hand_out_outer_values() -> None:
    """Results are the input, a value computed before, one of unknown size; read again, reshaped, and returned."""

    def build(x, go):
        before = ops.add(x, number(1.0))
        shape = [vector(FLOAT, N), vector(FLOAT, N), vector(FLOAT, symbol("size"))]

        def then():
            indices = ops.nonzero(x, count="found")
            return [x, before, ops.gather(x, ops.reshape(indices, shape=(symbol("found"),)), axis=0)]

        def otherwise():
            return [before, ops.mul(x, number(5.0)), ops.slice(x, starts=(0,), sizes=(1,), steps=(1,))]

        a, b, c = either(go, then, otherwise, shape, ("size",))
        folded = ops.reshape(a, shape=(1, N))
        return [a, b, c, folded, ops.add(folded, number(1.0)), before, ops.mul(c, number(2.0))]

    function = compiled([vector(FLOAT, N), TensorType(BOOL, ())], build)
    for n in (1, 12):
        x = floats(n)
        for go in (True, False):
            a, b, c = (x, x + 1, x[x != 0]) if go else (x + 1, x * 5, x[:1])
            same(call(function, x, scalar(go)), [a, b, c, a[None], a[None] + 1, x + 1, c * 2])


def test_nested_branches() -> None:
    def build(x, first, second):
        def inner():
            return either(second, lambda: [ops.neg(x)], lambda: [x], [vector(FLOAT, N)])

        def doubled():
            (value,) = inner()
            return [ops.mul(value, number(2.0))]

        return either(first, doubled, inner, [vector(FLOAT, N)])

    function = compiled([vector(FLOAT, N), TensorType(BOOL, ()), TensorType(BOOL, ())], build)
    x = floats(7)
    for first in (True, False):
        for second in (True, False):
            value = -x if second else x
            same(call(function, x, scalar(first), scalar(second)), [value * 2 if first else value])


def test_only_the_branch_taken_runs() -> None:
    """The other one would read out of range."""

    def build(x, index):
        inside = ops.lt(index, ops.dim_values(dims=(N,), scalar=True))
        return either(inside, lambda: [ops.gather(x, index, axis=0)], lambda: [number(-1.0)], [vector(FLOAT)])

    function = compiled([vector(FLOAT, N), COUNT], build)
    same(call(function, floats(3), scalar(1)), [floats(3)[1]])
    same(call(function, floats(3), scalar(8)), [np.float32(-1)])


def test_a_branch_not_taken_may_have_impossible_sizes() -> None:
    """Without its first three elements, where there are as many."""

    def build(x):
        def shorter():
            rest = ops.slice(x, starts=(3,), sizes=(N - 3,), steps=(1,))
            return [ops.cumulative(rest, kind="sum", axis=0)]

        enough = ops.ge(ops.dim_values(dims=(N,), scalar=True), number(3, INT))
        return either(enough, shorter, lambda: [x], [vector(FLOAT, symbol("size"))], ("size",))

    function = compiled([vector(FLOAT, N)], build)
    for n in (0, 1, 2, 3, 10):
        x = floats(n)
        same(call(function, x), [np.cumsum(x[3:]) if n >= 3 else x])


# ---- failures --------------------------------------------------------------------------------------------------------
def test_an_error_ends_the_loop() -> None:
    """An index out of range in iteration 5 of an otherwise endless loop."""

    def build(x):
        def body(iteration, total):
            return ops.ge(total, total), [ops.add(total, ops.gather(x, iteration, axis=0))], []

        return loop(None, number(1, BOOL), [number(0.0)], body, [vector(FLOAT)])

    function = compiled([vector(FLOAT, N)], build, node="walk")
    with pytest.raises(BurnError, match=r"walk.*index 5"):
        function(np.ones(5, np.float32))


def test_an_error_without_a_launch_ends_the_loop() -> None:
    """The body only reads a size, which is negative."""

    def build(x):
        def body(iteration):
            ops.read_dim(x, symbol="s", position=0)
            return None, [], []

        loop(number(2**62, INT), None, [], body, [])
        return [x]

    with pytest.raises(BurnError):
        compiled([vector(INT, 1)], build)(np.array([-4]))


def test_memory_of_an_iteration_is_given_back() -> None:
    """200 iterations that each allocate 8 MiB of a size only known inside. All at once they would be 1.6 GiB."""
    import resource

    def build(x, trips):
        def body(iteration, total):
            indices = ops.nonzero(x, count="found")
            return None, [ops.add(total, ops.reduce(indices, kind="sum", axes=(0, 1)))], []

        return loop(trips, None, [number(0, INT)], body, [COUNT])

    function = compiled([vector(BOOL, N), COUNT], build)
    x = np.ones(1 << 20, bool)
    call(function, x, scalar(1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    same(call(function, x, scalar(200)), [scalar(200 * (x.size - 1) * x.size // 2)])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10


# ---- memory ----------------------------------------------------------------------------------------------------------
def test_kernels_write_carried_values_in_place() -> None:
    """The liveness of a loop: what the body makes needs no buffer of its own where a carried one waits for it."""
    from burn.dialect.mlir import context
    from burn.kernels.liveness import Liveness
    from burn.passes import pipeline

    program = Program.create([("x", vector(FLOAT, N)), ("trips", COUNT)])
    with program.building():
        outputs = running_sums(*program.inputs)
    program.finish([(f"y{i}", v) for i, v in enumerate(outputs)])
    pipeline.run(pipeline.parse("decompose,fuse"), program)
    with context():
        live = Liveness(program.block)
        assert len(live.in_place) == 1  # total; the stacked results' length is not known before the loop ends
        assert not set(live.in_place) & set(live.buffers)
