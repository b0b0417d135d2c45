"""`burn.Tensor`, `burn.ops` and control flow: what they compute, against numpy, and what they refuse."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn import ops
from burn.errors import TypeMismatch

LOOSE: Any = ops  # for calls that a type checker would refuse
RANDOM = np.random.default_rng(7)


def draw(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


def run(function: Callable[..., Any], *arrays: np.ndarray, dynamic: Any = None) -> Any:
    return burn.compile(function, arrays, dynamic)(*arrays)


def check(function: Callable[..., Any], *arrays: np.ndarray, tolerance: float = 1e-6) -> None:
    """The same function of tensors and of arrays."""
    got, want = run(function, *arrays), function(*arrays)
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)


ARITHMETIC = ["add", "sub", "mul", "truediv", "lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("name", ARITHMETIC)
def test_operators_broadcast_as_in_numpy(name: str) -> None:
    function = getattr(operator, name)
    check(function, draw(3, 1, 4), draw(2, 1))
    check(lambda x: function(x, 2.0), draw(5))
    check(lambda x: function(np.float32(2.0), x) if isinstance(x, np.ndarray) else function(2.0, x), draw(5))


@pytest.mark.parametrize("name", ["floordiv", "mod", "and_", "or_", "xor", "add", "mul"])
def test_integer_operators(name: str) -> None:
    function = getattr(operator, name)
    a, b = RANDOM.integers(-20, 20, (4, 5)), RANDOM.integers(1, 9, (5,))
    check(function, a, b)
    check(lambda x: function(x, 3), a)
    check(lambda x: function(17, x), b)


def test_unary_operators() -> None:
    check(lambda x: -abs(x), draw(7))
    check(lambda x: ~x, RANDOM.integers(0, 9, 6))
    check(lambda x: x**2.0, np.abs(draw(5)))


INDICES: dict[str, Callable[[Any], Any]] = {
    "one": lambda x: x[1],
    "from the end": lambda x: x[-1],
    "slice": lambda x: x[1:3],
    "steps": lambda x: x[:, ::2, 1::3],
    "backwards": lambda x: x[::-1, 4:1:-1],
    "new axes": lambda x: x[None, :, 0, None],
    "dots": lambda x: x[..., 2],
    "dots between": lambda x: x[1, ..., 1:],
    "beyond the end": lambda x: x[2:100],
    "nothing": lambda x: x[3:1],
}


@pytest.mark.parametrize("name", INDICES)
def test_indexing_is_numpys(name: str) -> None:
    check(INDICES[name], draw(4, 5, 6))
    x = draw(4, 5, 6)
    np.testing.assert_array_equal(
        run(INDICES[name], x, dynamic={0: {0: "a", 1: "b", 2: "c"}}), INDICES[name](x)
    )  # bounds that depend on sizes known only at run time


def test_indexing_by_a_tensor() -> None:
    x, i = draw(5, 6), np.array([[3, 0], [4, 4]])
    np.testing.assert_array_equal(run(lambda a, b: a[b], x, i), x[i])
    np.testing.assert_array_equal(run(lambda a, b: a[:, b], x, i), x[:, i])
    np.testing.assert_array_equal(run(lambda a: a.take(2, 1), x), x[:, 2])


SHAPES: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "reshape": (lambda x: x.reshape(2, -1), lambda x: x.reshape(2, -1)),
    "flatten": (lambda x: x.flatten(1), lambda x: x.reshape(2, 12)),
    "flatten the middle": (lambda x: x.flatten(0, 1), lambda x: x.reshape(6, 4)),
    "permute": (lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)),
    "transpose": (lambda x: x.transpose(0, -1), lambda x: x.swapaxes(0, -1)),
    "unsqueeze": (lambda x: x.unsqueeze(-1).squeeze(-1).unsqueeze(1), lambda x: x[:, None]),
    "broadcast": (lambda x: x.broadcast_to(5, 2, 3, 4), lambda x: np.broadcast_to(x, (5, 2, 3, 4))),
    "sum": (lambda x: x.sum((0, -1), keepdims=True), lambda x: x.sum((0, -1), keepdims=True)),
    "mean": (lambda x: x.mean(1), lambda x: x.mean(1)),
    "max of all": (lambda x: x.max(), lambda x: x.max()),
    "argmax": (lambda x: x.argmax(-1), lambda x: x.argmax(-1)),
    "astype": (lambda x: x.astype("int32"), lambda x: x.astype("int32")),
    "softmax": (lambda x: x.softmax(0), lambda x: np.exp(x) / np.exp(x).sum(0)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_methods(name: str) -> None:
    ours, theirs = SHAPES[name]
    x = draw(2, 3, 4)
    for dynamic in (None, {"x": {0: "n"}}):
        np.testing.assert_allclose(run(lambda x: ours(x), x, dynamic=dynamic), theirs(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "shapes",
    [
        ((3, 4), (4, 5)),
        ((2, 3, 4), (4, 5)),
        ((2, 3, 4), (2, 4, 5)),
        ((5, 1, 3, 4), (2, 4, 3)),
        ((4,), (4, 3)),
        ((3, 4), (4,)),
        ((4,), (2, 4, 3)),
    ],
)
def test_matmul_is_numpys(shapes: tuple) -> None:
    check(operator.matmul, *(draw(*s) for s in shapes), tolerance=1e-5)


def test_sizes_are_symbols_with_arithmetic() -> None:
    def function(x: burn.Tensor) -> burn.Tensor:
        rows, columns = x.shape
        assert str(rows) == "rows" and columns == 6
        folded = x.reshape(rows * 2, columns // 2)
        return folded * (rows + 1) + burn.constant(rows)[None].astype("float32")

    fast = burn.compile(function, ("float32[rows, 6]",))
    for n in (1, 5, 8):
        x = draw(n, 6)
        np.testing.assert_allclose(fast(x), x.reshape(n * 2, 3) * (n + 1) + n, rtol=1e-5)


def test_named_sizes_must_agree_at_run_time() -> None:
    fast = burn.compile(lambda x, y: x + y, ("float32[n, 2]", "float32[n, 2]"))
    with pytest.raises(burn.InputError, match="must be n = 3"):
        fast(draw(3, 2), draw(4, 2))


# ---- what is refused ---------------------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "if": (lambda x: x if x.sum() > 0 else -x, r"burn\.cond"),
    "while": (lambda x: [x for _ in iter(lambda: bool(x.sum() > 0), False)], "truth value"),
    "float": (lambda x: x * float(x.sum()), "float"),
    "range": (lambda x: [x for _ in range(x.sum().astype("int64"))], "read_dim"),
    "numpy": (lambda x: np.exp(np.asarray(x)), "functions of burn"),
    "len": (lambda x: x * len(x.transpose(0, 1)), "len"),
    "nothing": (lambda x: None, "returns tensors"),
    "no operand": (lambda x: x + "a", "no operand"),
    "bits of floats": (lambda x: x & x, "integers and bools"),
    "uint64 and int64": (lambda x: x.astype("int64") + x.astype("uint64"), "in common"),
    "shapes": (lambda x: x + burn.constant([1.0, 2.0]).reshape(2, 1).broadcast_to(2, 5), "cannot broadcast"),
    "attribute": (lambda x: LOOSE.softmax(x, axes=1), "has no attribute axes"),
    "axis": (lambda x: ops.softmax(x, axis=7), "out of range"),
    "too many": (lambda x: LOOSE.relu(x, x), "operands by position"),
    "twice": (lambda x: LOOSE.relu(x, x=x), "both by position and by name"),
    "bad index": (lambda x: x[0, 0, 0], "3 entries for 2 axes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_what_to_do(name: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(TypeMismatch, match=message):
        burn.compile(function, ("float32[3, n]",))


def test_unknown_ops_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match=r"no burn\.ops\.no_such_op"):
        _ = LOOSE.no_such_op
    with pytest.raises(AttributeError, match="'nonsense'"):
        _ = burn.nonsense  # type: ignore[attr-defined]


def test_ops_have_docs_and_signatures() -> None:
    for name in ops.names():
        function = getattr(ops, name)
        assert len(function.__doc__) > 10, name
        inspect.signature(function)
    assert str(inspect.signature(ops.softmax)) == "(x: 'Tensor', *, axis: 'int' = -1) -> 'Tensor'"
    assert {"and_", "or_", "not_", "softmax", "conv"} <= set(dir(ops))


# ---- control flow ------------------------------------------------------------------------------------------------------


def test_cond_runs_the_branch_that_the_data_chooses() -> None:
    def function(x: burn.Tensor) -> Any:
        return burn.cond(x.sum() > 0, lambda: (x * 2, x[:1]), lambda: (x - 1, x[:2]))

    fast = burn.compile(function, ("float32[4]",))
    for x in (np.ones(4, np.float32), -np.ones(4, np.float32)):
        double, part = fast(x)
        np.testing.assert_array_equal(double, x * 2 if x.sum() > 0 else x - 1)
        assert part.shape == ((1,) if x.sum() > 0 else (2,))


def test_branches_must_agree() -> None:
    for other, message in (
        (lambda x: (x, x), r"otherwise \(tensor, tensor\)"),
        (lambda x: x.astype("int64"), "otherwise int64"),
    ):
        with pytest.raises(TypeMismatch, match=message):
            burn.compile(lambda x, f=other: burn.cond(x.sum() > 0, lambda: x, lambda: f(x)), ("float32[4]",))


def test_loop_counts_stops_and_stacks() -> None:
    def function(x: burn.Tensor, limit: burn.Tensor) -> Any:
        def body(i: burn.Tensor, going: burn.Tensor, total: burn.Tensor) -> tuple:
            total = total + x
            return total.sum() < limit, total, total * 10

        return burn.loop(body, [x * 0], trips=100, condition=True, scans=1)

    total, rows = burn.compile(function, ("float32[2]", "float32[]"))(np.ones(2, np.float32), np.float32(7))
    np.testing.assert_array_equal(total, [4, 4])  # 2, 4, 6, 8: the first sum that is not below 7
    np.testing.assert_array_equal(rows, 10 * np.arange(1, 5)[:, None] * np.ones(2))


def test_a_loop_without_an_end_is_refused() -> None:
    with pytest.raises(TypeMismatch, match="does not end"):
        burn.compile(lambda x: burn.loop(lambda i, c, a: (c, a), [x]), ("float32[2]",))


def test_sizes_from_data() -> None:
    def function(n: burn.Tensor) -> burn.Tensor:
        count = burn.read_dim(n, "count")
        return ops.iota(shape=(count,), axis=0) * 2

    fast = burn.compile(function, ("int64[]",))
    np.testing.assert_array_equal(fast(np.int64(4)), [0, 2, 4, 6])
    with pytest.raises(burn.RunError):
        fast(np.int64(-3))


# ---- compile and jit ---------------------------------------------------------------------------------------------------


def test_jit_compiles_once_for_a_signature() -> None:
    calls = []

    @burn.jit
    def f(x: burn.Tensor, y: burn.Tensor) -> burn.Tensor:
        """Adds."""
        calls.append(1)
        return x + y

    for shape in ((2, 3), (2, 3), (4, 1), (2, 3)):
        np.testing.assert_array_equal(f(np.ones(shape, np.float32), y=np.ones(shape, np.float32)), np.full(shape, 2))
    assert len(calls) == 2 and f.__doc__ == "Adds."


def test_jit_with_named_sizes_compiles_once_for_all() -> None:
    before = burn.compile_count()
    f = burn.jit(dynamic={"x": {0: "n"}})(lambda x: x * 3.0)
    for n in (1, 2, 9):
        assert f(np.ones((n, 2), np.float32)).shape == (n, 2)
    assert burn.compile_count() == before + 1


def test_outputs_by_name_and_closed_over_arrays() -> None:
    w = draw(3, 100)
    fast = burn.compile(lambda x: {"hidden": x @ w, "twice": x * 2}, ("float32[n, 3]",))
    x = draw(2, 3)
    got = fast.run({"x": x})
    assert list(got) == ["hidden", "twice"]
    np.testing.assert_allclose(got["hidden"], x @ w, rtol=1e-5, atol=1e-5)


def test_wrong_examples_are_all_named() -> None:
    with pytest.raises(TypeMismatch) as caught:
        burn.compile(lambda x: x, {"x": "float32[2]", "z": "float32[2]"}, dynamic={"q": {0: "n"}})
    assert "no input 'z'" in str(caught.value) and "'q'" in str(caught.value)
    with pytest.raises(TypeMismatch, match="what inputs"):
        burn.compile(lambda x: x)
    for text in ("float32", "float33[2]", "float32[2 +]", "float32[a b]"):
        with pytest.raises(TypeMismatch):
            burn.spec(text)


def test_specs() -> None:
    assert str(burn.spec("float32[n, min(n, 4), 2*n + 1]")) == "float32[n, min(4, n), 2*n + 1]"
    assert str(burn.spec("int8", ("batch", 3))) == "int8[batch, 3]"
    assert str(burn.spec("bool[]")) == "bool[]"


def test_element_types_of_tensors_stay_outside_of_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """`x.dtype` is a str that equals numpy's types, at some cost: the dialect gets the plain name."""
    x = burn.tensor([1.0, 2.0])
    for made in (burn.zeros((2,), dtype=x.dtype), x.astype(x.dtype), burn.ops.cast(x, dtype=x.dtype), x + 1):
        assert type(made.type.dtype) is str and made.dtype == np.float32
    assert type(burn.nn.Parameter((2,), x.dtype).type.dtype) is str
    with pytest.raises(burn.TypeMismatch, match="no element type 'float31'"):
        burn.nn.Parameter((2,), "float31")
