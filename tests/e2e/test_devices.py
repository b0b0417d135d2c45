"""Whole models on device="xla" and through JAX: the CPU's numbers, and burn's gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import burn
from burn.importers.onnx import import_onnx
from tests.e2e.test_models import _path, assert_close
from tests.models import MODELS, Exporter, instances, random_inputs, sizes_to_try

jax = pytest.importorskip("jax")

from tests.e2e.gradients import Judge, floats_of, weighted  # noqa: E402  imports JAX

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


@pytest.mark.slow
@pytest.mark.parametrize(("name", "exporter"), instances())
def test_gradients_through_jax(name: str, exporter: Exporter | None) -> None:
    """Of a weighted sum of all outputs, by each input of floats."""
    if name.startswith("light_"):
        pytest.skip(
            "all its channels are equal, so that the gradient is zero but for rounding; the seeded ones stand for it"
        )
    path, feeds = _path(name, exporter), feeds_of(name)
    names, floats = list(feeds), floats_of(feeds)
    if not floats:
        pytest.skip("the model takes no floats")
    graph = burn.load(path, train=True)
    own = burn.jit(burn.grad(lambda *xs: weighted(graph(*xs), burn.constant), argnums=[names.index(n) for n in floats]))
    Judge.of(path, feeds).check(lambda given: [np.asarray(g) for g in own(*given.values())], feeds)
