"""Calls with containers of tensors: `burn.compile` and `burn.jit` on lists, dictionaries, dataclasses and what is no tensor."""

from __future__ import annotations

import threading
from collections import namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import burn
from burn.compiled import CompiledFunction
from burn.errors import InputError, TypeMismatch
from burn.tensors import trees

RANDOM = np.random.default_rng(5)


def draw(*shape: int) -> np.ndarray:
    return RANDOM.standard_normal(shape, np.float32)


@dataclass
class Cache:
    key: Any
    value: Any
    length: str = "short"


Point = namedtuple("Point", "x y")


def test_trees_come_back_as_they_were() -> None:
    value = {"a": [1, (2.0, None)], "b": Cache(draw(2), draw(3)), "c": Point(draw(1), "text"), "d": [], "e": {}}
    leaves, structure = trees.flatten(value)
    assert trees.paths(structure) == ["a.0", "a.1.0", "b.key", "b.value", "c.x"]
    again = trees.unflatten(structure, leaves)
    assert again["a"] == [1, (2.0, None)] and again["b"].key is value["b"].key and again["b"].length == "short"
    assert isinstance(again["c"], Point) and again["c"].y == "text" and again["d"] == [] and again["e"] == {}
    assert trees.flatten(value)[1] == structure and hash(trees.flatten(value)[1]) == hash(structure)
    assert trees.flatten({**value, "c": Point(draw(1), "other")})[1] != structure
    assert trees.flatten(1)[1] == trees.flatten(2)[1] and trees.flatten(True)[1] != trees.flatten(False)[1]


def step(x: burn.Tensor, cache: Cache, scale: bool = False) -> tuple[burn.Tensor, Cache]:
    total = cache.key + x
    return (total * 2.0 if scale else total), Cache(total, cache.value - x, cache.length)


def test_jit_takes_and_returns_containers() -> None:
    f = burn.jit(step)
    x, cache = draw(3), Cache(draw(3), draw(3))
    y, new = f(x, cache, scale=True)
    assert isinstance(new, Cache) and isinstance(y, np.ndarray)
    np.testing.assert_allclose(y, (x + cache.key) * 2, rtol=1e-6)
    np.testing.assert_allclose(new.value, cache.value - x, rtol=1e-6)
    f(x, new, scale=True)
    assert len(f.programs) == 1
    f(x, new)
    f(x, Cache(new.key, new.value, "long"))
    assert len(f.programs) == 3


def test_jit_in_a_traced_function_is_part_of_it() -> None:
    inner = burn.jit(lambda x: x + 1.0)
    run = burn.compile(lambda x: inner(x) * 2.0, ("float32[n]",))
    np.testing.assert_array_equal(run(np.zeros(4, np.float32)), np.full(4, 2, np.float32))
    assert not inner.programs


def test_compile_with_containers_keeps_sizes_dynamic() -> None:
    run = burn.compile(step, (draw(3), Cache(draw(3), draw(3))), dynamic={"x": {0: "n"}, "cache": {0: "n"}})
    assert isinstance(run, CompiledFunction)
    assert [spec.name for spec in run.executable.inputs] == ["x", "cache.key", "cache.value"]
    before = burn.compile_count()
    for n in (1, 5, 0):
        x, cache = draw(n), Cache(draw(n), draw(n))
        y, new = run(x, cache)
        np.testing.assert_allclose(y, x + cache.key, rtol=1e-6)
        assert new.value.shape == (n,)
    assert burn.compile_count() == before
    with pytest.raises(InputError, match="'cache' is made differently"):
        run(draw(3), (draw(3), draw(3)))
    with pytest.raises(InputError, match="do not fit"):
        run(draw(3))


@pytest.mark.parametrize(
    "dynamic",
    [
        {"state": {"k": {0: "n"}, "pair": [{0: "n"}, None]}, "x": {0: "n"}},
        {"state": {"k": {0: "n"}, "pair": {0: {0: "n"}}}, 1: {0: "n"}},
        [{"k": {0: "n"}, "pair": ({0: "n"},)}, {0: "n"}],
        {"state.k": {0: "n"}, "state.pair.0": {0: "n"}, "x": {0: "n"}},
        {"state": {"k": {0: "n"}}, "state.pair": [{0: "n"}], "x": {0: "n"}},
    ],
)
def test_sizes_that_vary_mirror_the_containers(dynamic: Any) -> None:
    def f(state: dict[str, Any], x: burn.Tensor) -> Any:
        return state["k"] + x, state["pair"][0] * state["pair"][1][0]

    def arguments(n: int) -> Any:
        return {"k": draw(n), "pair": (draw(n), draw(3))}, draw(n)

    run, jitted = burn.compile(f, arguments(3), dynamic=dynamic), burn.jit(f, dynamic=dynamic)
    assert [s.dims for s in run.executable.inputs] == [("n",), ("n",), (3,), ("n",)]
    for n in (3, 1, 0, 5):
        state, x = arguments(n)
        for call in (run, jitted):
            total, scaled = call(state, x)
            np.testing.assert_allclose(total, state["k"] + x, rtol=1e-6)
            np.testing.assert_allclose(scaled, state["pair"][0] * state["pair"][1][0], rtol=1e-6)
    assert len(jitted.programs) == 1


def test_sizes_that_do_not_fit_are_named_at_once() -> None:
    def f(cache: dict[str, Any], x: burn.Tensor) -> Any:
        return cache["k"] + x

    examples = ({"k": draw(3), "at": 3, "note": "a"}, draw(3))
    dynamic = {"cache": {"q": {0: "n"}, "k": {"r": "n"}, "note": 3, "at": {0: "n"}}, "x": {0: "n n"}, "z": {0: "n"}}
    for call in (lambda d: burn.compile(f, examples, dynamic=d), lambda d: burn.jit(f, dynamic=d)(*examples)):
        with pytest.raises(TypeMismatch) as caught:
            call(dynamic)
        text = str(caught.value)
        for part in (
            "'cache': has no 'q'",
            "'cache.k'",
            "'cache.note'",
            "'cache.at': there is no axis 0",
            "'x'",
            "'z'",
        ):
            assert part in text, text
        with pytest.raises(TypeMismatch, match=r"'cache\.at': there is no axis 0"):
            call({"cache": {0: "n"}})
        for wrong in ("n", 3, {"x": "n"}, {"x": [0]}, {"x": {0: 1.5}}):
            with pytest.raises(TypeMismatch):
                call(wrong)


def test_arguments_by_name_and_variadic() -> None:
    def f(x, scale=2.0, *rest, offset, **more):
        for other in (*rest, *more.values()):
            x = x + other
        return x * scale + offset

    jitted = burn.jit(f)
    x = draw(4)
    np.testing.assert_allclose(jitted(x, 3.0, x, x, offset=1.0, extra=x), x * 4 * 3 + 1, rtol=1e-5)
    np.testing.assert_allclose(jitted(x, offset=x), x * 2 + x, rtol=1e-6)
    run = burn.compile(f, {"x": "float32[n]", "offset": "float32[n]"})
    np.testing.assert_allclose(run(x, x), x * 2 + x, rtol=1e-6)
    with pytest.raises(TypeMismatch, match="offset"):
        jitted(x)


def test_methods_and_functions_without_tensors() -> None:
    class Model:
        factor = 3.0

        @burn.jit
        def run(self, x):
            return x * self.factor

    np.testing.assert_allclose(Model().run(np.ones(2, np.float32)), [3, 3])
    with pytest.raises(TypeMismatch, match="returns tensors"):
        burn.compile(lambda x: (x, Model()), ("float32[2]",))


def test_jit_compiles_once_for_many_threads() -> None:
    f = burn.jit(lambda x: {"y": [x + 1.0]})
    before = burn.compile_count()
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(f(np.zeros(7, np.float32)))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 8 and all((r["y"][0] == 1).all() for r in results)
    assert burn.compile_count() == before + 1


def test_jit_sees_other_weights_and_another_mode() -> None:
    from burn import nn

    class Model(nn.Module):
        def __init__(self) -> None:
            self.linear = nn.Linear(3, 2)

        @burn.jit
        def fast(self, x):
            return self.forward(x)

        def forward(self, x):
            return self.linear(x) * (2.0 if self.training else 1.0)

    model, x = Model(), draw(5, 3)
    whole, passed = burn.jit(model), burn.jit(lambda m, x: m(x))
    for change in (lambda: None, lambda: model.linear.weight.assign(draw(2, 3)), model.train, model.eval):
        change()
        want = (x @ model.linear.weight.numpy().T + model.linear.bias.numpy()) * (2 if model.training else 1)
        for got in (whole(x), passed(model, x), model.fast(x)):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    before = burn.compile_count()
    for call in (lambda: whole(x), lambda: passed(model, x), lambda: model.fast(x)):
        call()
    assert burn.compile_count() == before
    assert sum(map(len, whole.programs.values())) == 2  # one for each mode


def test_one_example_needs_no_tuple() -> None:
    x = draw(1, 4)
    for example in ("float32[1, 4]", x, burn.constant(x)):
        np.testing.assert_allclose(burn.compile(lambda x: x + 1.0, example)(x), x + 1)
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeMismatch, match=r"burn\.compile"):
        burn.jit(torch.nn.Linear(2, 2))


def test_a_jitted_function_may_call_itself() -> None:
    inner = np.ones(3, np.float32)

    @burn.jit
    def f(x, depth=True):
        return x + f(inner, False) if depth else x * 2.0

    np.testing.assert_allclose(f(inner), np.full(3, 3.0))
