"""Loops over values: the same results in a traced function and outside, containers, and what is refused."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn.errors import RunError, TypeMismatch
from burn.lazy import statistics

RANDOM = np.random.default_rng(3)


def both(function: Callable[..., Any], *arrays: Any, specs: tuple[str, ...] | None = None) -> list[np.ndarray]:
    """The results outside of a traced function, after they were compared with those inside."""
    lazy = function(*map(burn.constant, arrays))
    traced = burn.compile(function, specs or arrays)(*arrays)
    pairs = zip(*((r if isinstance(r, (tuple, list)) else [r]) for r in (lazy, traced)), strict=True)
    results = []
    for ours, theirs in pairs:
        assert ours.dtype == str(theirs.dtype)
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6)
        results.append(ours.numpy())
    return results


@pytest.mark.parametrize("limit", [0.5, 1.0, 100.0])
def test_while_loop(limit: float) -> None:
    def function(x: burn.Tensor) -> Any:
        return burn.while_loop(lambda s: s[0] < limit, lambda s: (s[0] * 2.0, s[1] + 1), (x.sum(), 0))

    value, count = both(function, np.ones(3, np.float32) / 3)
    expected, steps = 1.0, 0
    while expected < limit:
        expected, steps = expected * 2, steps + 1
    assert count == steps and abs(value - expected) < 1e-4


def test_containers_keep_their_structure() -> None:
    def function(x: burn.Tensor) -> Any:
        state = {"x": x, "pair": [x * 0.0, True]}
        end = burn.fori_loop(0, 3, lambda i, s: {"x": s["x"] + i, "pair": [s["x"], ~s["pair"][1]]}, state)
        return end["x"], end["pair"][0], end["pair"][1]

    x = RANDOM.standard_normal(4).astype(np.float32)
    last, before, flag = both(function, x)
    np.testing.assert_allclose(last, x + 3, rtol=1e-6)
    np.testing.assert_allclose(before, x + 1, rtol=1e-6)
    assert not flag


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (3, 7), (4, 4), (5, 2)])
def test_fori_loop(start: int, stop: int) -> None:
    (total,) = both(lambda x: burn.fori_loop(start, stop, lambda i, s: s * 2 + i, x), np.int64(1))
    expected = 1
    for i in range(start, stop):
        expected = expected * 2 + i
    assert total == expected


def test_bounds_may_be_tensors_and_sizes() -> None:
    (total,) = both(lambda n: burn.fori_loop(0, n, lambda i, s: s + i, 0), np.int64(6))
    assert total == 15
    (total,) = both(
        lambda x: burn.fori_loop(0, x.shape[0], lambda i, s: s + x[0], 0.0),
        np.ones(7, np.float32),
        specs=("float32[n]",),
    )
    assert total == 7


@pytest.mark.parametrize("length", [0, 1, 5, 70])
def test_scan(length: int) -> None:
    def function(xs: burn.Tensor) -> Any:
        carry, (sums, doubled) = burn.scan(lambda c, x: (c + x, (c.sum(), x * 2.0)), burn.zeros(3), xs)
        return carry, sums, doubled

    xs = RANDOM.standard_normal((length, 3)).astype(np.float32)
    carry, sums, doubled = both(function, xs, specs=("float32[n, 3]",))
    np.testing.assert_allclose(carry, xs.sum(0), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(sums, np.concatenate([[0.0], xs.cumsum(0).sum(1)])[:length], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(doubled, xs * 2)


def test_scan_without_xs() -> None:
    carry, powers = both(lambda x: burn.scan(lambda c, _: (c * 2, c), x, length=6), np.int64(1))
    assert carry == 64 and powers.tolist() == [1, 2, 4, 8, 16, 32]


def test_iterations_share_a_program() -> None:
    burn.fori_loop(0, 5, lambda i, s: s + i, 0)
    before = statistics().compiled
    assert burn.fori_loop(0, 50, lambda i, s: s + i, 0).item() == 1225
    assert statistics().compiled == before


def test_loop_outside_of_traced_functions() -> None:
    total, rows = burn.loop(
        lambda i, going, t: (t < 7, t + 2, t * 10), [burn.constant(1)], trips=100, condition=True, scans=1
    )
    assert total.item() == 9 and rows.tolist() == [10, 30, 50, 70]
    assert burn.cond(total > 0, lambda: 1, lambda: 2) == 1


@pytest.mark.parametrize("flag", [True, False])
@pytest.mark.parametrize("length", [0, 1, 5])
def test_cond_takes_operands_and_gives_containers(flag: bool, length: int) -> None:
    def then(state: Any, step: Any) -> Any:
        return {"x": state["x"] * step, "rest": (burn.concat([state["x"], state["x"]]), [7, True, None])}

    def otherwise(state: Any, step: Any) -> Any:
        return {"x": state["x"] - step, "rest": (state["x"], [8, False, None])}

    def function(p: burn.Tensor, x: burn.Tensor) -> Any:
        result = burn.cond(p, then, otherwise, {"x": x}, 3.0)
        assert list(result) == ["x", "rest"] and type(result["rest"][1]) is list and result["rest"][1][2] is None
        return result["x"], result["rest"][0], *map(burn.constant, result["rest"][1][:2])

    x = RANDOM.standard_normal(length).astype(np.float32)
    first, rest, number, truth = both(function, np.bool_(flag), x, specs=("bool[]", "float32[n]"))
    np.testing.assert_allclose(first, x * 3 if flag else x - 3, rtol=1e-6)
    np.testing.assert_array_equal(rest, np.tile(x, 2) if flag else x)
    assert number == (7 if flag else 8) and truth == flag


@pytest.mark.parametrize(
    ("otherwise", "message"),
    [
        (lambda x: {"b": (x,)}, r"then gives \{'a': tensor\}, otherwise \{'b': \(tensor,\)\}"),
        (lambda x: x, "then gives {'a': tensor}, otherwise tensor"),
        (lambda x: {"a": x[None]}, r"then gives float32\[n\], otherwise float32\[1, n\], at a"),
        (lambda x: {"a": x.astype("int64")}, r"otherwise int64\[n\], at a"),
    ],
)
def test_branches_return_one_structure(otherwise: Callable[..., Any], message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        burn.compile(lambda p, x: burn.cond(p, lambda x: {"a": x}, otherwise, x), ("bool[]", "float32[n]"))


@pytest.mark.parametrize("refused", [0, 1])
@pytest.mark.parametrize("named", [False, True])
def test_a_partial_cond_refuses_a_branch_when_a_run_takes_it(refused: int, named: bool) -> None:
    """Also below another op's region, and with a derivative."""

    def function(p: burn.Tensor, x: burn.Tensor) -> burn.Tensor:
        branches = [lambda x: (x + 1).reshape(2, 3), lambda x: x[None] * x]
        types = {"results": ["float32[a, b]"], "sizes": ("a", "b")} if named else {}
        return burn.cond(p, *branches[:: -1 if refused else 1], x, partial=True, **types)

    run, x = burn.jit(function), RANDOM.standard_normal(4).astype(np.float32)
    np.testing.assert_allclose(run(np.bool_(refused), x), x[None] * x, rtol=1e-6)
    slope = burn.jit(lambda p, x: burn.grad(lambda x: function(p, x).sum())(x))
    if not named:
        np.testing.assert_allclose(slope(np.bool_(refused), x), 2 * x, rtol=1e-6)
    with pytest.raises(RunError, match=f"'{('then', 'otherwise')[refused]}' of burn.cond: .*4 elements .* do not fill"):
        run(np.bool_(not refused), x)
    longer = RANDOM.standard_normal(6).astype(np.float32)
    np.testing.assert_allclose(run(np.bool_(not refused), longer), (longer + 1).reshape(2, 3), rtol=1e-6)


@pytest.mark.parametrize("partial", [False, True])
def test_a_cond_is_refused_where_no_branch_is_possible(partial: bool) -> None:
    def both_wrong(p: burn.Tensor, x: burn.Tensor) -> burn.Tensor:
        return burn.cond(p, lambda: x.reshape(2, 3), lambda: x.reshape(3, 3), partial=partial)

    with pytest.raises(TypeMismatch, match="do not fill shape"):
        burn.jit(both_wrong)(True, np.ones(4))
    with pytest.raises(TypeMismatch, match="do not fill shape"):
        burn.jit(lambda p, x: burn.cond(p, lambda: x.reshape(2, 3), lambda: x))(True, np.ones(4))


REFUSED: dict[str, tuple[Callable[[burn.Tensor], Any], str]] = {
    "type": (lambda x: burn.while_loop(lambda s: s < 9, lambda s: s.astype("int64"), x.sum()), "keeps its type"),
    "shape": (lambda x: burn.fori_loop(0, 2, lambda i, s: burn.concat([s, s]), x), "keeps its type"),
    "structure": (lambda x: burn.fori_loop(0, 2, lambda i, s: (s, s), x), "another structure"),
    "choice": (lambda x: burn.cond(x, lambda: x, lambda: x), "bool scalar"),
    "condition": (lambda x: burn.while_loop(lambda s: s < 9, lambda s: s, x), "bool scalar"),
    "scan's body": (lambda x: burn.scan(lambda c, v: c, 0.0, x), r"returns \(carry, y\)"),
    "lengths": (lambda x: burn.scan(lambda c, v: (c, c), 0.0, (x, x[:2])), "one length"),
    "no length": (lambda x: burn.scan(lambda c, v: (c, c), x), "one length"),
    "no end": (lambda x: burn.loop(lambda i, c, s: (c, s), [x]), "does not end"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("mode", ["lazy", "traced"])
def test_what_is_refused(name: str, mode: str) -> None:
    function, message = REFUSED[name]
    with pytest.raises(TypeMismatch, match=message):
        if mode == "lazy":
            function(burn.zeros(3))
        else:
            burn.compile(function, ("float32[3]",))


@pytest.mark.parametrize("flag", [True, False])
def test_inner_regions_yield_the_counter_and_the_condition_of_a_loop(flag: bool) -> None:
    """Both are the first values of these regions, as a loop's next condition is of its own body."""

    def function(x: burn.Tensor, flag: burn.Tensor) -> Any:
        def body(i: burn.Tensor, going: burn.Tensor, a: burn.Tensor) -> Any:
            taken, doubled = burn.cond(flag, lambda: (i, a), lambda: (i, a * 2.0))
            (inner,) = burn.loop(lambda j, _, b: (going, b + 1.0), [doubled], trips=2, condition=True)
            return going, inner + taken.astype("float32")

        return burn.loop(body, [x], trips=5, condition=True)

    x, expected = np.ones(3, np.float32), np.ones(3)
    for i in range(5):
        expected = expected * (1 if flag else 2) + 2 + i
    got = burn.compile(function, ("float32[3]", "bool[]"))(x, np.array(flag))
    np.testing.assert_allclose(got, expected, rtol=1e-6)


def test_a_refused_branch_may_hold_custom_derivatives() -> None:
    """The derivatives of its values must not apply to values that come later, nor be read after they are freed."""

    @burn.custom_vjp
    def scaled(x: burn.Tensor) -> burn.Tensor:
        return x * 2

    scaled.defvjp(lambda x: (x * 2, None), lambda residual, g: (g * 1000,))

    def function(x: burn.Tensor) -> burn.Tensor:
        def refused(x: burn.Tensor) -> burn.Tensor:
            for _ in range(6):
                x = scaled(x)
            return x.reshape(7, 7)

        zero = burn.cond(x.sum() > 1e9, refused, lambda x: x.sum().reshape(1, 1), x, partial=True).sum() * 0
        gc.collect()
        for _ in range(40):
            x = x * 1.1
        return x.sum() + zero

    x = np.ones(3, np.float32)
    np.testing.assert_allclose(burn.jit(burn.grad(function))(x), np.full(3, 1.1**40), rtol=1e-5)
