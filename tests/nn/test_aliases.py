"""Tensors derived from a parameter keep their elements after an assignment to the parameter."""

from __future__ import annotations

import copy
import inspect
import itertools
import os
import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn, optim
from burn.nn.parameter import Buffer, Parameter
from burn.tensors import trees

TAKES: dict[str, Callable[[Any], Any]] = {
    "clone": lambda p: p.clone(),
    "clone().detach()": lambda p: p.clone().detach(),
    "contiguous": lambda p: p.contiguous(),
    "evaluate": lambda p: p.evaluate(),
    "burn.tensor": burn.tensor,
    "burn.asarray": burn.asarray,
    "np.copy": np.copy,
    "np.array": np.array,
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "+p": lambda p: +p,
    "p[...]": lambda p: p[...],
    "concat": lambda p: burn.concat([p]),
    "reshape": lambda p: p.reshape(*p.shape),
    "astype": lambda p: p.astype(p.dtype),
    "permute": lambda p: p.permute(0),
    "cond": lambda p: burn.cond(True, lambda: p, lambda: p + 1),
    "while_loop": lambda p: burn.while_loop(lambda x: burn.tensor(False), lambda x: x + 1, p),
    "Identity": lambda p: nn.Identity()(p),
    "Dropout": lambda p: nn.Dropout(0.5)(p),
    "jit": lambda p: burn.jit(lambda: p)(),
    "numpy": lambda p: p.numpy(),
    "state_dict": lambda p: Holder(p).state_dict()["held"],
    "clone of the module": lambda p: Holder(p).clone().held,
    "dlpack": np.from_dlpack,
    "container": lambda p: burn.stop_gradient([p])[0],
}


class Holder(nn.Module):
    def __init__(self, held: Parameter) -> None:
        self.held = held


@pytest.fixture(scope="module")
def trained() -> tuple[Any, Callable[[], Any]]:
    """A model, and a step that writes its parameters in place."""
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    step = burn.train.step(model, lambda m, x: (m(x) ** 2).sum() + m[0].bias.sum(), optim.SGD(model, lr=0.1))
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    step(x)
    return model, lambda: step(x)


@pytest.mark.parametrize("name", TAKES)
def test_what_is_taken_stays_as_it_was(name: str, trained: tuple[Any, Callable[[], Any]]) -> None:
    """Through a step, which writes in place, and through `assign`."""
    model, step = trained
    for p in (model[0].bias, model[1].running_mean):
        before = p.numpy().copy()
        taken = TAKES[name](p)
        step()
        after = p.numpy().copy()
        assert not np.array_equal(after, before)
        np.testing.assert_array_equal(np.asarray(taken), before)
        taken = TAKES[name](p)
        p.assign(before)
        np.testing.assert_array_equal(np.asarray(taken), after)


def test_an_average_of_weights() -> None:
    """As everyone writes it."""
    model = nn.Linear(3, 2)
    step = burn.train.step(model, lambda m, x: (m(x) ** 2).sum(), optim.SGD(model, lr=0.1))
    average, first = {n: p.clone() for n, p in model.named_parameters()}, model.weight.numpy().copy()
    want = first.copy()
    for _ in range(3):
        step(np.ones((4, 3), np.float32))
        average = {n: average[n] * 0.9 + p * 0.1 for n, p in model.named_parameters()}
        want = want * 0.9 + model.weight.numpy() * 0.1
    np.testing.assert_allclose(average["weight"].numpy(), want, rtol=1e-6)


# ---- a sweep over every method and function ------------------------------------------------------------------------------
ARGUMENTS: tuple[tuple[Any, ...], ...] = (
    (), (0,), (1,), (-1,), (0, 0), (0, 1), (1, 1), (1, 0), ((0,),), ((0, 1),), ((),), (None,), (None, None), ([(0, 0)],),
    ([(0, 0), (0, 0)],), ("float32",), ("int64",), ("bool",), ("cpu",), (1.0,), (0.0,), (2,), (3,), ((1, 1),), ((3,),), ((3, 1),),
    (0.0, 1.0), (True,), (slice(None),),
)  # fmt: skip
"""Arguments of many functions, among them those with which they change nothing."""
MODULES: tuple[tuple[Any, ...], ...] = ((), (1,), (0.0,), (0.5,), (3, 3), (1, 1))


DRAWN = min(int(os.environ.get("BURN_SWEEP", "1")), len(ARGUMENTS) - 1)
"""How many of the arguments each function is called with."""
SEED = int(os.environ.get("BURN_SWEEP_SEED", "0"))


def _parameters() -> Iterator[Parameter]:
    for dtype, shape in itertools.product(("float32",), ((1,), (3, 1))):
        yield Parameter(np.ones(shape, dtype))
    yield Buffer(np.ones((3, 1), np.float32))


def _functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in sorted(set(dir(burn.Tensor)) - {"__class__", "__init_subclass__", "__subclasshook__", "__new__"}):
        found = inspect.getattr_static(burn.Tensor, name)
        if name.startswith("_") and not name.endswith("__"):
            continue
        if isinstance(found, property):
            yield f".{name}", found.fget  # type: ignore[misc]
        elif callable(found) and name not in ("__init__", "__del__", "__reduce__", "__setattr__", "__delattr__"):
            yield f".{name}", lambda p, *rest, n=name: getattr(p, n)(*rest)  # a parameter's own, if it has one
    for home in (burn, burn.linalg, burn.fft):
        for name in dir(home):
            function = getattr(home, name, None)
            if (
                inspect.isfunction(function)
                and name[0] != "_"
                and name not in ("load", "export", "jit", "compile", "manual_seed")
            ):
                yield f"{home.__name__}.{name}", function
                yield f"{home.__name__}.{name} of a list", lambda p, *rest, f=function: f([p], *rest)
    for name in dir(nn):
        cls = getattr(nn, name)
        if inspect.isclass(cls) and issubclass(cls, nn.Module) and cls is not nn.Module:
            for own in MODULES:
                try:
                    layer = cls(*own)
                except Exception:
                    continue
                yield f"nn.{name}{own}", layer
                break


def _found(functions: list[tuple[str, Callable[..., Any]]]) -> tuple[set[str], int]:
    wrong, calls, rng = set(), 0, random.Random(SEED)
    for p in _parameters():
        for name, function in functions:
            for arguments in (ARGUMENTS[0], *rng.sample(ARGUMENTS[1:], DRAWN)):
                try:
                    result = function(p, *arguments)
                except Exception:  # arguments that it does not take
                    continue
                calls += 1
                if any(isinstance(leaf, Parameter) for leaf in trees.flatten(result)[0]):
                    wrong.add(name)
    return wrong, calls


COPIES = {".__copy__", ".__deepcopy__"}
"""These give another parameter."""


def test_nothing_returns_the_parameter_itself() -> None:
    wrong, calls = _found([(name, f) for name, f in _functions() if name.startswith(".") or DRAWN > 1])
    assert wrong <= COPIES and calls > 300


def test_nothing_returns_the_parameter_itself_in_a_program() -> None:
    from burn.tensors.tracer import Tracer, tracing

    with tracing(Tracer([], opens=True)):
        wrong, calls = _found(list(_functions()))
    assert wrong <= COPIES and calls > 500
