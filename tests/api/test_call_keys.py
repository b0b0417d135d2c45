"""Calls of jitted functions that find their program by one key: the same results and compilations as calls that are looked at."""

from __future__ import annotations

import copy
import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import burn
from burn import nn
from burn.jitted import KEYS

X = np.arange(6, dtype=np.float32).reshape(2, 3)


def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails a call that is looked at argument by argument."""

    def refuse(*_: object) -> None:
        raise AssertionError("the call has no key")

    monkeypatch.setattr("burn.jitted.bound", refuse)


def twice(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Calls until the program and its key are known."""
    function(*args, **kwargs)
    return function(*args, **kwargs)


def sums(a: Any, b: Any = 2.0, *rest: Any, scale: Any = 1, flag: bool = True, name: str = "", **more: Any) -> Any:
    total = a * b if flag else a - b
    for value in (*rest, *more.values()):
        total = total + (
            sum(value) if isinstance(value, (list, tuple)) else value["x"] if isinstance(value, dict) else value
        )
    return total * scale + len(name)


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((X,), {}),
    ((X, X), {}),
    ((X, 3), {}),
    ((X, 3.5), {}),
    ((X, np.float64(3.5)), {}),
    ((X,), {"b": X[:1]}),
    ((X,), {"scale": 4, "b": 5.0}),
    ((X,), {"flag": False, "name": "abc", "b": X}),
    ((X,), {"name": "ab", "flag": True}),
    ((X, X, X, [X, X], (X,)), {}),
    ((X, X), {"more": X, "other": {"x": X}}),
    ((X, X), {"other": X, "more": {"x": X, "y": X}}),
    ((X.astype(np.float64), 2), {}),
    ((X[0], X[1]), {}),
    ((np.float32(2), 3), {}),
    ((np.array(2, np.float32), 3), {}),
]


@pytest.mark.parametrize("of", [np.asarray, burn.tensor, torch.from_numpy], ids=["numpy", "burn", "torch"])
def test_every_form_of_call_equals_the_function(of: Callable[[Any], Any]) -> None:
    """Interleaved, three times, so that a key that stands for two of them gives a wrong result."""
    jitted = burn.jit(sums)

    def given(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return of(value)
        if isinstance(value, (list, tuple)):
            return type(value)(map(given, value))
        return {k: given(v) for k, v in value.items()} if isinstance(value, dict) else value

    for _ in range(3):
        for args, kwargs in CALLS:
            wanted = sums(*args, **kwargs)
            found = jitted(*given(args), **given(kwargs))
            assert np.shape(found) == np.shape(wanted)
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-6)
    count = sum(map(len, jitted.programs.values()))
    assert count <= len(CALLS)


@pytest.mark.parametrize("number", [0, 5, 6, 7, 9, 10, 12])
def test_a_known_call_is_not_looked_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    jitted, (args, kwargs) = burn.jit(sums), CALLS[number]
    wanted = twice(jitted, *args, **kwargs)
    direct(monkeypatch)
    np.testing.assert_array_equal(jitted(*args, **dict(reversed(kwargs.items()))), wanted)


def test_numbers_have_the_types_that_they_had() -> None:
    jitted = burn.jit(lambda n: n + n)
    found = [jitted(v) for v in (1, 2, 1.0, 2.5, 1 << 62, -(1 << 62)) * 2]
    assert [str(f.dtype) for f in found] == ["int64", "int64", "float32", "float32", "int64", "int64"] * 2
    assert [f.item() for f in found][:4] == [2, 4, 2.0, 5.0]
    assert str(twice(jitted, 1 << 63).dtype) == "uint64"
    with pytest.raises(burn.errors.BurnError):
        twice(jitted, -(1 << 70))


def test_bools_and_strings_are_values() -> None:
    jitted = burn.jit(lambda x, how: x * (2 if how in (True, "a") else 3))
    for how, factor in [(True, 2), ("a", 2), (False, 3), ("b", 3), (None, 3)] * 2:
        np.testing.assert_array_equal(jitted(X, how), X * factor)
    assert len(jitted.programs) == 5


def test_static_numbers_are_values(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = burn.jit(lambda x, n, lr: x * lr + n, static="n")
    for n, lr in [(1, 2.0), (2, 2.0), (1, 3.0), (1, 2.0)] * 2:
        np.testing.assert_array_equal(jitted(X, n, lr), X * lr + n)
    assert len(jitted.programs) == 2
    power = burn.jit(lambda x, n: x**n, static="n")
    wanted = [power(X, n) for _ in range(2) for n in (2, 3)][2:]
    direct(monkeypatch)
    for n, value in zip((2, 3), wanted, strict=True):
        np.testing.assert_array_equal(power(X, n), value)


def test_open_sizes_have_one_program(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = burn.jit(lambda x: x.sum(0), dynamic={"x": {0: "n"}})
    for rows in (2, 5, 0, 1):
        twice(jitted, np.ones((rows, 3), np.float32))
    assert len(jitted.programs) == 1
    direct(monkeypatch)
    assert jitted(np.ones((5, 3), np.float32)).tolist() == [5.0] * 3


def test_other_arrays_are_looked_at() -> None:
    jitted = burn.jit(lambda x: x + 1)
    wanted = X + 1

    class Own(np.ndarray):
        pass

    for x in (X, X.view(Own), np.asfortranarray(X), X.astype(">f4"), X[::-1]) * 2:
        np.testing.assert_array_equal(jitted(x), np.asarray(x, np.float32) + 1)
    np.testing.assert_array_equal(jitted(X), wanted)


class Scaled(nn.Module):
    def __init__(self) -> None:
        self.linear = nn.Linear(3, 3)
        self.factor, self.steps, self.table = 1.0, [1.0], {"a": 1.0}
        self.fixed = np.ones(3, np.float32)

    def forward(self, x: burn.Tensor) -> burn.Tensor:
        return (self.linear(x) * self.factor + sum(self.steps) + self.table.get("a", 7.0)) * burn.tensor(self.fixed)


def _assign(module: Scaled) -> None:
    module.linear.weight.assign(np.full((3, 3), 2, np.float32))


CHANGES: dict[str, Callable[[Scaled], object]] = {
    "attribute": lambda m: setattr(m, "factor", 3.0),
    "list": lambda m: m.steps.append(2.0),
    "list item": lambda m: m.steps.__setitem__(0, 5.0),
    "dictionary": lambda m: m.table.update(a=4.0),
    "dictionary key": lambda m: m.table.update(b=m.table.pop("a")),
    "array": lambda m: m.fixed.__setitem__(1, 9.0),
    "elements": _assign,
    "reset": lambda m: m.linear.weight.reset(nn.init.ones),
    "another parameter": lambda m: setattr(m.linear, "bias", nn.Parameter(np.array([1, 2, 3], np.float32))),
    "type": lambda m: m.linear.weight.convert("float64") or m.linear.bias.convert("float64"),
    "become": lambda m: m.linear.weight.become(nn.Parameter(np.eye(3, dtype=np.float32)).weight),
    "exchange": lambda m: m.linear.weight.exchange(nn.Parameter(np.eye(3, dtype=np.float32))),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("opened", [False, True])
def test_changes_of_a_module_are_seen(change: str, opened: bool) -> None:
    module = Scaled()
    jitted = burn.jit(module)
    if opened:
        twice(jitted, X)
        module.linear.bias.assign(np.array([3, 1, 2], np.float32))
    for _ in range(3):
        np.testing.assert_allclose(jitted(X), module(burn.tensor(X)).numpy(), rtol=1e-5)
    CHANGES[change](module)
    x = X.astype(np.float64) if change == "type" else X
    for _ in range(3):
        np.testing.assert_allclose(jitted(x), module(burn.tensor(x)).numpy(), rtol=1e-5)


def test_modules_as_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = burn.jit(lambda module, x: module(x))
    modules = Scaled(), Scaled()
    wanted = [jitted(m, X) for _ in range(2) for m in modules][2:]
    assert not np.array_equal(*wanted)
    direct(monkeypatch)
    for module, value in zip(modules, wanted, strict=True):
        np.testing.assert_array_equal(jitted(module, X), value)


def test_checks_for_nan_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    jitted = burn.jit(lambda x: x.log())
    twice(jitted, X - 1)
    with burn.debug.nans(), pytest.raises(burn.errors.RunError):
        jitted(X - 1)
    assert np.isnan(jitted(X - 1)).any()
    monkeypatch.setenv("BURN_DEBUG_NANS", "1")
    with pytest.raises(burn.errors.RunError):
        jitted(X - 1)
    monkeypatch.delenv("BURN_DEBUG_NANS")
    assert np.isnan(jitted(X - 1)).any()


def test_calls_inside_of_traces_and_derivatives() -> None:
    jitted = burn.jit(lambda x: x * x)
    x = burn.tensor(X)
    twice(jitted, x)
    np.testing.assert_array_equal(burn.grad(lambda t: jitted(t).sum())(x).numpy(), 2 * X)
    outer = burn.jit(lambda t: jitted(t) + 1)
    np.testing.assert_array_equal(outer(x).numpy(), X * X + 1)
    np.testing.assert_array_equal(jitted(x).numpy(), X * X)


def test_frozen_parameters_get_no_gradient_after_many_steps() -> None:
    module = nn.Linear(3, 2)
    step = burn.train.step(module, lambda m, x: (m(x) ** 2).mean(), burn.optim.SGD(module, lr=0.1))
    for _ in range(3):
        step(X)
    kept = module.bias.numpy()
    shown = kept.copy()
    module.bias.trainable = False
    for _ in range(3):
        step(X)
    np.testing.assert_array_equal(module.bias.numpy(), shown)
    module.bias.trainable = True
    step(X)
    assert not np.array_equal(module.bias.numpy(), shown)
    np.testing.assert_array_equal(kept, shown)  # a view that was taken before is not written to


def test_steps_leave_copies_and_views_alone() -> None:
    module = nn.Linear(3, 2)
    step = burn.train.step(module, lambda m, x: (m(x) ** 2).mean(), burn.optim.AdamW(module, lr=0.1))
    twice(step, X)
    other, tensor, weight = copy.deepcopy(module), module.weight + 0, module.weight.weight
    views = [other.weight.numpy(), tensor.numpy(), weight.array()]
    before = [v.copy() for v in views]
    for _ in range(3):
        step(torch.from_numpy(X))
    for view, old in zip(views, before, strict=True):
        np.testing.assert_array_equal(view, old)
    assert not np.array_equal(module.weight.numpy(), before[0])


def test_keys_hold_no_more_than_programs_do() -> None:
    jitted = burn.jit(lambda x: x + 1)
    reference = weakref.ref(tensor := burn.tensor(X))
    twice(jitted, tensor)
    del tensor
    gc.collect()
    assert reference() is None


def test_the_number_of_keys_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burn.jitted.KEYS", 4)
    assert KEYS > 4
    jitted = burn.jit(lambda x: x + 1, dynamic={"x": {0: "n"}})
    for rows in range(10):
        assert jitted(np.zeros(rows, np.float32)).shape == (rows,)
    assert len(jitted._calls) <= 4


# ---- values that are equal and differ --------------------------------------------------------------------------------
VALUES = [
    [0.0, -0.0],
    [(0.0,), (-0.0,)],
    [((1, -0.0),), ((1, 0.0),), ((True, 0.0),), ((1.0, 0.0),)],
    [0j, -0j, complex(0.0, -0.0)],
    [1, 1.0, True],
    [frozenset({1}), frozenset({1.0}), frozenset({True})],
]


@pytest.mark.parametrize("values", VALUES, ids=str)
def test_static_values_that_are_equal_and_differ(values: list[Any]) -> None:
    """Python says that 0.0 equals -0.0, and (1,) equals (True,): a function may tell them apart."""
    seen: list[str] = []

    def told(x: burn.Tensor, value: Any) -> burn.Tensor:
        seen.append(repr(value))
        return x + float(len(seen))

    f, x = burn.jit(told, static=["value"]), np.zeros(3, np.float32)
    first = [float(f(x, value)[0]) for value in values]
    assert seen == [repr(value) for value in values]
    assert [float(f(x, value)[0]) for value in values] == first == [1.0 + i for i in range(len(values))]


@pytest.mark.parametrize("keys", [[(1,), (1.0,), (True,)], [0.0, -0.0], [1, 1.0, True]], ids=str)
def test_keys_that_are_equal_and_differ(keys: list[Any]) -> None:
    seen: list[str] = []

    def told(x: burn.Tensor, table: dict[Any, str]) -> burn.Tensor:
        seen.append(repr(table))
        return x + float(len(seen))

    f, x = burn.jit(told), np.zeros(3, np.float32)
    first = [float(f(x, {key: "a"})[0]) for key in keys]
    assert [float(f(x, {key: "a"})[0]) for key in keys] == first == [1.0 + i for i in range(len(keys))]


def test_a_static_nan_compiles_once() -> None:
    f, x = burn.jit(lambda x, s: x * s, static=["s"]), np.ones(3, np.float32)
    for s in [float("nan"), float("nan"), -float("nan")]:
        assert np.isnan(np.asarray(f(x, s))).all()
    assert len(f.programs) == 1
