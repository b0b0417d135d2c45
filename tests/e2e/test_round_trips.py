"""Whole models through other compilers' programs and back: burn -> StableHLO -> burn, and JAX -> burn -> JAX, numbers and
gradients; and JAX's own models through both."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.exporting import program_of
from burn.importers.onnx import import_onnx
from burn.loading import read_program
from burn.tracing.replay import replay
from tests.e2e.test_devices import ALL, HUGE, feeds_of
from tests.e2e.test_models import _path, assert_close
from tests.models.case import Exporter

jax = pytest.importorskip("jax")

from tests.e2e.gradients import Gradient, Judge, by_jax, floats_of, weighted  # noqa: E402  imports JAX

jnp = jax.numpy

NUMBERS = {
    "silero_vad": "JAX cannot compare its sizes, quotients of the named length, with 1",
    "lstm": "a loop over a named size is a while loop in JAX, which has no derivative in reverse mode",
}
"""Models that JAX traces for sizes that are numbers, and why."""

FORWARD = 1e-4
"""Difference allowed, relative to an output's largest value."""


def by_burn(program: Program, feeds: dict[str, Any]) -> Gradient:
    """The gradient of a program by its float inputs."""
    numbers = [list(feeds).index(n) for n in floats_of(feeds)]
    gradient = burn.jit(burn.grad(lambda *xs: weighted(replay(program, xs), burn.constant), argnums=numbers))
    return lambda feeds: [np.asarray(g) for g in gradient(*feeds.values())]


@pytest.mark.parametrize(("name", "exporter"), ALL)
def test_burn_stablehlo_burn(name: str, exporter: Exporter | None, tmp_path: Path) -> None:
    if name == "silero_vad":
        pytest.skip(NUMBERS[name])
    path, feeds = _path(name, exporter), feeds_of(name)
    want = burn.load(path, cache=False).run(feeds)
    file = tmp_path / "model.mlir"
    program = import_onnx(str(path))
    burn.export(program, file)
    again = burn.load(file, cache=False)
    made = again.run(dict(zip((i.name for i in again.inputs), feeds.values(), strict=True)))
    assert_close(dict(zip(want, made.values(), strict=True)), want, FORWARD)
    if floats_of(feeds) and not name.startswith("light_"):
        Judge.of(path, feeds).check(by_burn(read_program(file), feeds), feeds)


@pytest.mark.parametrize(("name", "exporter"), ALL)
def test_jax_burn_jax(name: str, exporter: Exporter | None) -> None:
    if name in HUGE:
        pytest.skip(HUGE[name])
    path, feeds = _path(name, exporter), feeds_of(name)
    program = import_onnx(str(path))
    function = burn.to_jax(program)
    with context():
        types = [str(t) for t in program.input_types]
    if name in NUMBERS:
        types = [str(burn.spec(x.dtype.name, x.shape)) for x in feeds.values()]
    with jax.enable_x64(True):
        back = burn.from_jax(lambda *xs: function(*xs))
        again_program = program_of(back, tuple(types))
        again = burn.to_jax(again_program)
        renamed = dict(zip(again_program.input_names, feeds.values(), strict=True))
        want, made = jax.jit(lambda x: function(**x))(feeds), jax.jit(lambda x: again(**x))(renamed)
        for number, (have, expected) in enumerate(zip(jax.tree.leaves(made), jax.tree.leaves(want), strict=True)):
            assert_close({f"{number}": np.asarray(have)}, {f"{number}": np.asarray(expected)}, FORWARD)
        if floats_of(feeds) and not name.startswith("light_"):
            Judge.of(path, feeds).check(by_jax(again, renamed), renamed)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["transformer", "cnn", "lstm", "unet", "nnx_mlp", "equinox_mlp", "equinox_vit", "haiku_lstm"]
)
def test_jax_stablehlo_burn_stablehlo_jax(name: str, tmp_path: Path) -> None:
    """A model of JAX exported by JAX, read by burn, written by burn and called by JAX, with its derivative."""
    pytest.importorskip({"equinox": "equinox", "haiku": "haiku"}.get(name.partition("_")[0], "flax"))
    from jax import export

    from tests.jax.models import MODELS

    model = MODELS[name]()
    leaves, tree = jax.tree.flatten(model.parameters)

    def function(arrays: Any, *inputs: Any) -> Any:
        return model.function(jax.tree.unflatten(tree, arrays), *inputs)

    given = (leaves, *model.inputs)
    (tmp_path / "in.jax").write_bytes(export.export(jax.jit(function))(*given).serialize())
    program = read_program(tmp_path / "in.jax")
    written = burn.export(program, tmp_path / "out.jax")
    flat = jax.tree.leaves(given)
    want = jax.jit(function)(*given)
    (have,) = jax.tree.leaves(written.call(*flat))
    np.testing.assert_allclose(have, want, rtol=1e-4, atol=2e-5)
    again = burn.to_jax(program)
    moving = [i for i, x in enumerate(flat) if jnp.issubdtype(x.dtype, jnp.floating)]

    def loss(of: Any) -> Any:
        def total(floats: Any) -> Any:
            arrays = list(flat)
            for i, x in zip(moving, floats, strict=True):
                arrays[i] = x
            (result,) = jax.tree.leaves(of(*arrays))
            return weighted(result, jnp.asarray)

        return total

    floats = [flat[i] for i in moving]
    rebuilt = jax.tree.structure(given)
    wanted = jax.jit(jax.grad(loss(lambda *xs: function(*jax.tree.unflatten(rebuilt, xs)))))(floats)
    largest = max(float(np.abs(g).max(initial=0)) for g in wanted)
    for have, expected in zip(jax.jit(jax.grad(loss(again)))(floats), wanted, strict=True):
        # A sum that cancels to zero, such as the gradient of a bias before a norm, has the rounding errors of the others.
        bound = max(1e-4 * float(np.abs(expected).max(initial=0)), 1e-6 * largest)
        np.testing.assert_allclose(have, expected, rtol=1e-4, atol=bound)
