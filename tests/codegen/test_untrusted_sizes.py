"""Sizes that do not fit, multiply to too much, or are 0 as divisors: the run ends with an error, and the program touches no
memory but its own."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from running import call, compiled, same

from burn.codegen.host.emit import PTR, Function
from burn.codegen.host.sizes import Sizes
from burn.dialect import ops
from burn.dialect.dims import Dim, Expr, Symbol, floordiv, mod, product, symbol
from burn.dialect.mlir import ir
from burn.dialect.types import TensorType
from burn.errors import CompileError, RunError

FLOAT, INT = "float32", "int64"
N, M, A, B = (symbol(name) for name in ("n", "m", "a", "b"))
PAIR = TensorType(INT, (2,))


def floats(*shape: Dim) -> TensorType:
    return TensorType(FLOAT, shape)


def zeros(*shape: Dim) -> ir.Value:
    return ops.full(shape=shape, dtype=FLOAT, value=0.0)


def total(x: ir.Value) -> ir.Value:
    """The sum, by way of memory: a cumulative sum is no part of another kernel."""
    return ops.reduce(ops.cumulative(x, kind="sum", axis=0), kind="sum", axes=(0, 1))


# ---- what is written must fill what it is taken for ----------------------------------------------------------------------
@pytest.mark.parametrize("n", [0, 3, 1000, 1 << 20])
def test_an_output_is_as_large_as_what_is_written_to_it(n: int) -> None:
    """The kernel in front of the reshape writes the output."""
    function = compiled([floats(N)], lambda x: ops.reshape(ops.neg(x), shape=(2, 2)))
    same(call(function, np.ones(4, np.float32)), [np.full((2, 2), -1, np.float32)])
    with pytest.raises(RunError, match=f"node.*{n}"):
        function(np.ones(n, np.float32))


def test_also_where_the_shape_is_read_from_data() -> None:
    def build(x, shape):
        ops.read_dim(shape, symbol="a", position=0)
        ops.read_dim(shape, symbol="b", position=1)
        return ops.reshape(ops.neg(x), shape=(A, B))

    function = compiled([floats(N), PAIR], build)
    same(call(function, np.ones(6, np.float32), np.array([2, 3])), [np.full((2, 3), -1, np.float32)])
    for shape in ([1, 1], [5, 5], [0, 6], [1 << 40, 1 << 40]):
        with pytest.raises(RunError):
            function(np.ones(6, np.float32), np.array(shape))


def test_a_slice_of_a_loop_is_as_large_as_what_is_written_to_it() -> None:
    from test_control import loop

    def build(x):
        trips = ops.full(shape=(), dtype=INT, value=3.0)

        def body(iteration):
            return None, [], [ops.reshape(ops.add(x, ops.cast(iteration, dtype=FLOAT)), shape=(2, 2))]

        return loop(trips, None, [], body, [floats(3, 2, 2)])

    function = compiled([floats(N)], build)
    same(call(function, np.zeros(4, np.float32)), [np.arange(3, dtype=np.float32).repeat(4).reshape(3, 2, 2)])
    with pytest.raises(RunError):
        function(np.zeros(4096, np.float32))


# ---- many axes -----------------------------------------------------------------------------------------------------------
def test_outputs_of_more_axes_than_arrays_can_have_are_refused() -> None:
    with pytest.raises(CompileError, match="64 axes at most"):
        compiled([floats(N)], lambda x: ops.reshape(ops.neg(x), shape=(N, *[1] * 70)))


@pytest.mark.parametrize("rank", [2, 64, 65, 200])
def test_values_in_between_may_have_any_number(rank: int) -> None:
    def build(x):
        return ops.nonzero(ops.reshape(ops.neg(x), shape=(N, *[1] * (rank - 1))), count="found")

    (indices,) = call(compiled([floats(N)], build), np.array([0, 5, 0, 7], np.float32))
    assert indices.shape == (rank, 2) and indices[0].tolist() == [1, 3] and not indices[1:].any()


# ---- indices into nothing ------------------------------------------------------------------------------------------------
INDEXED: dict[str, Callable] = {
    "gather": lambda x, i, u: ops.gather(x, i, axis=0),
    "gather_elements": lambda x, i, u: ops.gather_elements(
        x, ops.broadcast_to(ops.reshape(i, shape=(M, 1)), shape=(M, 64)), axis=0
    ),
    "gather_nd": lambda x, i, u: ops.gather_nd(x, ops.reshape(i, shape=(M, 1))),
    "scatter_nd": lambda x, i, u: ops.scatter_nd(x, ops.reshape(i, shape=(M, 1)), u),
    "scatter_elements": lambda x, i, u: ops.scatter_elements(
        x, ops.broadcast_to(ops.reshape(i, shape=(M, 1)), shape=(M, 64)), u, axis=0
    ),
}


@pytest.mark.parametrize("name", INDEXED)
def test_nothing_is_read_or_written_in_an_axis_of_no_elements(name: str) -> None:
    function = compiled([floats(N, 64), TensorType(INT, (M,)), floats(M, 64)], INDEXED[name])

    def run(n: int, m: int) -> np.ndarray:
        return function(np.zeros((n, 64), np.float32), np.zeros(m, np.int64), np.ones((m, 64), np.float32))

    assert run(2, 1).any() == name.startswith("scatter")
    assert run(0, 0).shape == (0, 64)
    with pytest.raises(RunError, match="out of range"):
        run(0, 9)


# ---- too much ------------------------------------------------------------------------------------------------------------
HUGE = [(2**62, 1), (2**31, 2**31), (2**32, 2**32), (2**61 + 1, 8), (2**63 - 1, 2**63 - 1), (2**60 + 1, 16)]


def from_data(build: Callable[..., ir.Value]) -> Callable[[ir.Value], ir.Value]:
    """`build(a, b)` of two sizes that are read from the input."""

    def whole(sizes: ir.Value) -> ir.Value:
        ops.read_dim(sizes, symbol="a", position=0)
        ops.read_dim(sizes, symbol="b", position=1)
        return build(A, B)

    return whole


@pytest.mark.parametrize("shape", HUGE)
def test_sizes_that_multiply_to_too_much(shape: tuple[int, int]) -> None:
    for build in (lambda a, b: zeros(a, b), lambda a, b: total(zeros(a, b)), lambda a, b: total(zeros(a * b + a, 2))):
        function = compiled([PAIR], from_data(build))
        assert np.all(function(np.array([2, 3])) == 0)
        with pytest.raises(RunError, match=r"64 bits|out of memory"):
            function(np.array(shape))


def test_a_known_size_that_is_too_large_is_refused() -> None:
    with pytest.raises(CompileError, match="64 bits"):
        compiled([], lambda: total(zeros(2**62, 8)))


# ---- division by a size of 0 -----------------------------------------------------------------------------------------------
def test_division_by_a_size_of_zero() -> None:
    """In the entry function, and in a kernel's index arithmetic."""
    rest = compiled([floats(N), floats(M)], lambda x, y: ops.reshape(x, shape=(M, floordiv(N, M))))
    assert rest(np.ones(6, np.float32), np.ones(3, np.float32)).shape == (3, 2)
    assert rest(np.ones(0, np.float32), np.ones(0, np.float32)).shape == (0, 0)
    with pytest.raises(RunError):
        rest(np.ones(6, np.float32), np.ones(0, np.float32))
    modulo = compiled([floats(N), floats(M)], lambda x, y: zeros(mod(N, M) + 1))
    assert modulo(np.ones(6, np.float32), np.ones(4, np.float32)).shape == (3,)
    assert modulo(np.ones(6, np.float32), np.ones(0, np.float32)).shape == (1,)
    turned = compiled(
        [floats(N, M)],
        lambda x: ops.reshape(ops.transpose(ops.reshape(ops.neg(x), shape=(M, N)), permutation=(1, 0)), shape=(M * N,)),
    )
    for n, m in ((3, 5), (0, 5), (3, 0)):
        x = np.arange(n * m, dtype=np.float32).reshape(n, m)
        same(call(turned, x), [-x.reshape(m, n).T.reshape(-1)])


def test_a_kernel_that_makes_nothing_does_not_run() -> None:
    """The parallel loop alone would take years."""
    running = compiled([floats(N, M)], lambda x: ops.cumulative(x, kind="sum", axis=0))
    assert running(np.zeros((0, 1 << 40), np.float32)).shape == (0, 1 << 40)
    same(call(running, np.ones((2, 1), np.float32)), [np.array([[1], [2]], np.float32)])


# ---- an input that changes -------------------------------------------------------------------------------------------------
def test_another_thread_may_write_an_input_that_is_searched() -> None:
    """The result is arbitrary, but within bounds."""
    function = compiled([floats(N)], lambda x: ops.nonzero(x, count="found"))
    x = np.zeros(1 << 18, np.float32)
    stop = threading.Event()

    def flip() -> None:
        while not stop.is_set():
            x[:] = 1
            x[:] = 0

    thread = threading.Thread(target=flip)
    thread.start()
    try:
        for _ in range(100):
            (indices,) = function(x)
            assert ((indices >= 0) & (indices < x.size)).all()
    finally:
        stop.set()
        thread.join()


def test_multiplied_sums_are_computed_in_one_step() -> None:
    """Its polynomial has 3^4 terms."""
    code = Function("f", [("run", PTR)])
    sizes = Sizes(code)
    names = [[f"{letter}{axis}" for letter in "abc"] for axis in range(4)]
    for name in (n for axis in names for n in axis):
        sizes.bindings[Symbol(name)] = code.fresh("i64")
    whole = product([sum((symbol(n) for n in axis), 0) for axis in names])
    assert isinstance(whole, Expr) and len(whole.terms) == 81
    sizes.dim(whole)
    assert sum("with.overflow" in line for line in code.lines) < 20
