"""`burn.jit` and modules: parameters are inputs of programs, all else in modules and objects is compared between calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.errors import TypeMismatch


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).standard_normal(shape).astype(np.float32)


def close(got: object, want: object) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(want), rtol=1e-5, atol=1e-6)


class Scaled(nn.Module):
    def __init__(self) -> None:
        self.linear = nn.Linear(3, 2)
        self.k = 2.0
        self.options = {"shift": [1.0]}

    @burn.jit
    def fast(self, x):
        return self.forward(x)

    def forward(self, x):
        return self.linear(x) * self.k + self.options["shift"][0]

    def expected(self, x: np.ndarray) -> np.ndarray:
        y = x @ self.linear.weight.numpy().T + self.linear.bias.numpy()
        return y * self.k + self.options["shift"][0]


def ways(model: Scaled) -> list[Callable[..., Any]]:
    """The module itself, as an argument, from outside, and as `self`."""
    passed = burn.jit(lambda m, x: m(x))
    return [burn.jit(model), lambda x: passed(model, x), burn.jit(lambda x: model(x)), model.fast]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("way", range(4))
def test_updates_of_parameters_are_one_program(way: int, training: bool) -> None:
    model, x = Scaled().train(training), draw(5, 3)
    call = ways(model)[way]
    before = burn.compile_count()
    close(call(x), model.expected(x))
    for step in range(4):
        model.linear.weight.assign(draw(2, 3) * step)
        model.linear.bias.assign(draw(2) + step)
        close(call(x), model.expected(x))
    known = training and way != 2  # a module from outside of the function is met while it is traced
    assert burn.compile_count() <= before + (1 if known else 2)


@pytest.mark.parametrize("way", range(4))
def test_other_attributes_are_seen(way: int) -> None:
    model, x = Scaled(), draw(5, 3)
    call = ways(model)[way]

    def another_parameter() -> None:
        model.linear.weight = nn.Parameter(draw(2, 3) * 7)

    def another_layer() -> None:
        model.linear = nn.Linear(3, 2)

    changes = [
        lambda: None,
        lambda: setattr(model, "k", 3.0),
        lambda: model.options["shift"].__setitem__(0, 5.0),
        another_parameter,
        another_layer,
    ]
    for change in changes:
        change()
        close(call(x), model.expected(x))
    before = burn.compile_count()
    model.k = 3.0
    close(call(x), model.expected(x))
    assert burn.compile_count() == before


def test_modes_have_programs_of_their_own() -> None:
    layer = nn.Dropout(0.5)
    f, x = burn.jit(layer), np.ones(1000, np.float32)
    close(f(x), x)
    assert (np.asarray(f(x)) == 0).sum() == 0
    layer.train()
    assert 300 < (np.asarray(f(x)) == 0).sum() < 700
    before = burn.compile_count()
    layer.eval()
    close(f(x), x)
    assert burn.compile_count() == before


def test_parameters_of_another_type_compile_anew() -> None:
    layer, x = nn.Linear(3, 2), draw(4, 3)
    f = burn.jit(layer)
    f(x)
    layer.to("float16")
    assert f(x.astype(np.float16)).dtype == np.float16


def test_random_numbers_and_parameters() -> None:
    """The random state is asked for before the parameter is met, and stays the last input."""

    class Noisy(nn.Module):
        def __init__(self) -> None:
            self.drop, self.linear = nn.Dropout(0.5), nn.Linear(3, 2)

        def forward(self, x):
            return self.linear(self.drop(x))

    model = Noisy().train()
    f, x = burn.jit(model), np.zeros((4, 3), np.float32)
    for _ in range(2):
        model.linear.bias.assign(draw(2) + 1)
        close(f(x), np.broadcast_to(model.linear.bias.numpy(), (4, 2)))
    x = np.ones((1, 3), np.float32)
    assert len({tuple(np.asarray(f(x)).ravel()) for _ in range(20)}) > 1


def test_programs_hold_no_weights_that_change() -> None:
    layer = nn.Linear(200, 300)
    f = burn.jit(layer)
    for rows in (1, 2, 3):
        layer.bias.assign(draw(300) + rows)
        close(f(draw(rows, 200)), draw(rows, 200) @ layer.weight.numpy().T + layer.bias.numpy())
    programs = [program for programs in f.programs.values() for program in programs]
    assert len(programs) == 2  # what held the elements before the change is let go
    for program in programs:
        artefact = program.function.executable.artefact
        assert sum(memoryview(c.data).nbytes for c in artefact.constants) < 10_000


@pytest.mark.parametrize("layer, shape", [
    (nn.Conv2d(3, 8, 3), (2, 3, 9, 9)), (nn.Conv1d(4, 6, 3), (2, 4, 11)), (nn.Embedding(7, 5), (4,)),
    (nn.LayerNorm(6), (3, 6)), (nn.BatchNorm2d(3), (2, 3, 4, 4)), (nn.LSTM(4, 5), (2, 3, 4)),
    (nn.MultiheadAttention(8, 2), (2, 5, 8)), (nn.TransformerEncoder(8, 2, 16, 1), (2, 5, 8)),
])  # fmt: skip
def test_layers_as_compiled(layer: nn.Module, shape: tuple[int, ...]) -> None:
    x = np.arange(4) if isinstance(layer, nn.Embedding) else draw(*shape)
    inputs = (x, x, x) if isinstance(layer, nn.MultiheadAttention) else (x,)
    jitted = burn.jit(layer.train() if isinstance(layer, nn.Conv2d | nn.Conv1d) else layer)
    first = [np.asarray(r[0] if isinstance(r, tuple) else r) for r in (jitted(*inputs), layer(*inputs))]
    np.testing.assert_allclose(first[0], first[1], rtol=1e-4, atol=1e-5)


def test_objects_that_are_no_modules() -> None:
    class Plain:
        def __init__(self) -> None:
            self.k, self.table, self.held = 2.0, np.ones(2, np.float32), burn.constant([1.0, 2.0])
            self.calls = 0

        @burn.jit
        def run(self, x):
            self.calls += 1
            return x * self.k + self.table + self.held

    plain, x = Plain(), draw(3, 2)

    def expected() -> np.ndarray:
        return x * plain.k + plain.table + plain.held.numpy()

    close(plain.run(x), expected())
    before = burn.compile_count()
    close(plain.run(x), expected())
    assert burn.compile_count() == before and plain.calls == 1  # what tracing itself changes is no change
    plain.k = 5.0
    close(plain.run(x), expected())
    plain.table[0] = 9
    close(plain.run(x), expected())
    plain.held = burn.constant([4.0, 4.0])
    close(plain.run(x), expected())


# ---- static arguments --------------------------------------------------------------------------------------------------
def test_static_arguments_are_seen_as_they_are() -> None:
    @burn.jit(static=("axis", "times"))
    def f(x, axis, *, times=1):
        for _ in range(times):
            x = x + x.sum(axis, keepdims=True)
        return x

    x = draw(3, 4)
    before = burn.compile_count()
    for axis, times in ((0, 1), (1, 1), ((0, 1), 2), (0, 1)):
        want = x
        for _ in range(times):
            want = want + want.sum(axis, keepdims=True)
        close(f(x, axis, times=times), want)
    assert burn.compile_count() == before + 3
    close(burn.jit(lambda x, n: x.reshape(n, -1), static="n")(x, 2), x.reshape(2, -1))


def test_what_cannot_be_static() -> None:
    f = burn.jit(lambda x, n: x, static="n")
    with pytest.raises(TypeMismatch, match=r"'n' is static.*\n?.*list has no hash"):
        f(draw(2), [1, 2])
    with pytest.raises(TypeMismatch, match="tensors differ"):
        f(draw(2), burn.constant(1.0))
    with pytest.raises(TypeMismatch, match="static names what is no argument"):
        burn.jit(lambda x: x, static="m")


# ---- aliasing ----------------------------------------------------------------------------------------------------------
def test_elements_of_parameters_are_read_only() -> None:
    layer = nn.Linear(3, 2)
    for array in (layer.state_dict()["weight"], layer.weight.array, layer.weight.numpy()):
        with pytest.raises(ValueError, match="read-only"):
            np.copyto(array, 0)


def test_what_was_given_may_be_changed_afterwards() -> None:
    given = {"weight": draw(2, 3), "bias": draw(2)}
    want = {name: array.copy() for name, array in given.items()}
    layer = nn.Linear(3, 2)
    layer.load_state_dict(given)
    made = nn.Parameter(given["bias"])
    for array in given.values():
        array[:] = 0
    for name, array in want.items():
        np.testing.assert_array_equal(layer.state_dict()[name], array)
    np.testing.assert_array_equal(made.array, want["bias"])


# ---- parameters that a function changes ----------------------------------------------------------------------------------
def _memory(parameter: nn.Parameter) -> int:
    elements = parameter.elements
    assert isinstance(elements, np.ndarray)
    return elements.ctypes.data


def test_assigned_parameters_have_their_new_elements() -> None:
    layer = nn.Linear(3, 2)
    before = layer.weight.array.copy()

    @burn.jit
    def shrink(x):
        y = layer(x)
        layer.weight.assign(layer.weight * 0.5)
        return y, layer(x) - layer.bias

    x = np.ones((1, 3), np.float32)
    for factor in (1.0, 0.5, 0.25):
        first, second = shrink(x)
        np.testing.assert_allclose(first, before.sum(1)[None] * factor + layer.bias.array, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(second, before.sum(1)[None] * factor / 2, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.weight.array, before / 8, rtol=1e-6)
    assert sum(map(len, shrink.programs.values())) == 1


def test_they_stay_where_they_are_in_memory_unless_someone_looks() -> None:
    layer = nn.Linear(4, 4)

    @burn.jit
    def step(x):
        layer.weight.assign(layer.weight - x.T @ x)
        return x.sum()

    x = np.ones((2, 4), np.float32)
    step(x)
    address = _memory(layer.weight)
    for _ in range(20):
        step(x)
        assert _memory(layer.weight) == address
    kept, recorded = layer.state_dict()["weight"], layer.weight * 1.0
    copy = kept.copy()
    step(x)
    np.testing.assert_array_equal(kept, copy)
    np.testing.assert_array_equal(recorded.numpy(), copy)
    np.testing.assert_allclose(layer.weight.array, copy - x.T @ x, rtol=1e-5)


def test_a_copy_of_a_module_is_not_changed_along() -> None:
    layer = nn.Linear(2, 2)

    @burn.jit
    def step(x):
        layer.weight.assign(layer.weight + x)
        return x

    step(np.ones((2, 2), np.float32))
    twin = layer.clone()
    before = twin.weight.array.copy()
    step(np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(twin.weight.array, before)
    np.testing.assert_allclose(layer.weight.array, before + 1, rtol=1e-6)


def test_where_parameters_are_not_assigned() -> None:
    layer = nn.Linear(2, 2)

    def change(x):
        layer.weight.assign(x)
        return x

    with pytest.raises(TypeMismatch, match=r"burn\.jit"):
        burn.compile(change, ("float32[2, 2]",))
    with pytest.raises(TypeMismatch, match="does not take these elements"):
        burn.jit(change)(np.ones((3, 2), np.float32))

    def inside(x):
        def body(i, s):
            layer.weight.assign(s)
            return s

        return burn.fori_loop(0, 2, body, x)

    with pytest.raises(TypeMismatch, match="inside of"):
        burn.jit(inside)(np.ones((2, 2), np.float32))


def test_batch_norm_trains_in_a_jitted_function() -> None:
    rng = np.random.default_rng(0)
    eager, jitted = nn.BatchNorm1d(3).train(), nn.BatchNorm1d(3).train()
    run = burn.jit(lambda x: jitted(x), dynamic={"x": {0: "n"}})
    for n in (4, 7):
        x = rng.standard_normal((n, 3)).astype(np.float32)
        np.testing.assert_allclose(run(x), eager(burn.tensor(x)).numpy(), rtol=1e-4, atol=1e-5)
    for name in ("running_mean", "running_var"):
        np.testing.assert_allclose(jitted.state_dict()[name], eager.state_dict()[name], rtol=1e-5)
    with pytest.raises(burn.BurnError, match="two values a channel"):
        run(np.ones((1, 3), np.float32))


def test_a_function_without_a_result_is_refused() -> None:
    with pytest.raises(TypeMismatch, match="this one returns no tensor"):
        burn.jit(lambda x: None)(burn.ones(2))
