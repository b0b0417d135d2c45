"""Whole models on device="xla" and through JAX: the CPU's numbers, and burn's gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn.importers.onnx import import_onnx
from tests.e2e.test_models import _path, assert_close
from tests.models import MODELS, Exporter, instances, random_inputs, sizes_to_try

jax = pytest.importorskip("jax")

QUICK = (("mnist", None),)
"""The models of every test run; the others have the marker `slow`."""

HUGE = dict.fromkeys(
    ("light_squeezenet", "light_resnet50"),
    "its logits are 1e10 or 1e19, where neighbours are 1024 or more apart; XLA computes them twice, rounded differently, and "
    "subtracts: jax.nn.softmax(jnp.mean(x, (2, 3))) of such numbers is 0 or NaN as well",
)
"""Models whose numbers XLA cannot compute in float32."""

ALL = [
    pytest.param(*pair, id=".".join(filter(None, pair)), marks=[] if pair in QUICK else [pytest.mark.slow])
    for pair in instances()
]


def feeds_of(name: str) -> dict[str, Any]:
    return random_inputs(MODELS[name], 0, **list(sizes_to_try(MODELS[name].sizes))[-1])


@pytest.mark.parametrize(("name", "exporter"), ALL)
def test_xla_and_jax_compute_what_the_cpu_computes(name: str, exporter: Exporter | None) -> None:
    if name in HUGE:
        pytest.skip(HUGE[name])
    path, feeds = _path(name, exporter), feeds_of(name)
    want = burn.load(path).run(feeds)
    assert_close(burn.load(path, device="xla", cache=False).run(feeds), want)
    function = burn.to_jax(import_onnx(str(path)))
    with jax.enable_x64(True):
        made = jax.jit(lambda given: function(**given))(feeds)
    outputs = made if isinstance(made, tuple) else (made,)
    assert_close({n: np.asarray(x) for n, x in zip(want, outputs, strict=True)}, want)


def weights_of(shape: tuple[int, ...]) -> Any:
    return np.cos(np.arange(np.prod(shape)) * 0.37).astype(np.float32).reshape(shape)


Gradient = Callable[[dict[str, Any]], list[Any]]
"""The inputs by name -> the gradients by the float inputs."""
GRADIENT = 1e-3
"""Difference allowed, relative to a gradient's largest value."""


def moved(feeds: dict[str, Any], seed: int) -> dict[str, Any]:
    """The inputs with floats that are up to four ulps away."""
    draws = np.random.default_rng(seed)
    return {
        n: (x * (1 + 4 * np.finfo(x.dtype).eps * draws.uniform(-1, 1, x.shape))).astype(x.dtype)
        if x.dtype.kind == "f"
        else x
        for n, x in feeds.items()
    }


def assert_gradients(have: list[Any], reference: Gradient, feeds: dict[str, Any]) -> None:
    """Rounding decides at the edges of ReLU and at ties of pools: what a few ulps of the inputs change in the reference itself is
    allowed in addition."""
    want = reference(feeds)
    edges = [
        [np.abs(a - b).max(initial=0) for a, b in zip(reference(moved(feeds, s)), want, strict=True)] for s in (0, 1)
    ]
    for number, (a, b) in enumerate(zip(have, want, strict=True)):
        assert a.shape == b.shape and a.dtype == b.dtype
        allowed = GRADIENT * np.abs(b).max(initial=0) + 4 * max(edge[number] for edge in edges)
        difference = np.abs(a.astype(np.float64) - b).max(initial=0)
        assert difference <= allowed, f"{number}: {difference}, allowed {allowed}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "exporter"), instances())
def test_gradients_through_jax(name: str, exporter: Exporter | None) -> None:
    """Of a weighted sum of all outputs, by each input of floats."""
    if name.startswith("light_"):
        pytest.skip(
            "all its channels are equal, so that the gradient is zero but for rounding; the seeded ones stand for it"
        )
    path, feeds = _path(name, exporter), feeds_of(name)
    floats = [n for n, x in feeds.items() if x.dtype == np.float32]
    if not floats:
        pytest.skip("the model takes no floats")
    graph = burn.load(path, train=True)
    names = list(feeds)

    def weighted(outputs: Any, array: Any) -> Any:
        every = outputs if isinstance(outputs, (tuple, list)) else [outputs]
        return sum(((x * array(weights_of(x.shape))).sum() for x in every if "float" in str(x.dtype)), start=0.0)

    own = burn.jit(
        burn.grad(lambda *xs: weighted(graph(*xs), burn.constant), argnums=[names.index(n) for n in floats])
    )(*feeds.values())
    function = burn.to_jax(import_onnx(str(path)))
    gradient = jax.jit(jax.grad(lambda given, rest: weighted(function(**given, **rest), jax.numpy.asarray)))

    def by_jax(feeds: dict[str, Any]) -> list[Any]:
        found = gradient({n: feeds[n] for n in floats}, {n: x for n, x in feeds.items() if n not in floats})
        return [np.asarray(found[n]) for n in floats]

    with jax.enable_x64(True):
        assert_gradients([np.asarray(g) for g in own], by_jax, feeds)
