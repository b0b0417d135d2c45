"""Models of Flax, Equinox and Haiku: run, trained, exported to ONNX, compiled to a C library, written as source."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import burn
from burn.exporters.python.generate import generate
from burn.exporting import program_of
from burn.importers.jax.tracing import is_float
from tests.deploy.making import Library, make
from tests.jax.models import MODELS, Model

LAYERS = {
    "transformer": ("nn.LayerNorm(16, eps=1e-06)", "nn.Embedding(11, 16", "nn.ModuleList(Block()", "nn.Linear(16, 32)"),
    "cnn": ("nn.BatchNorm2d(6)", "nn.Conv2d(3, 6, 3, padding=1)", "nn.Linear(32, 5)"),
    "nnx_mlp": ("nn.LayerNorm(8, eps=1e-06)", "nn.Linear(4, 8)"),
    "equinox_vit": ("nn.LayerNorm(8)", "nn.Linear(8, 16)"),
}
"""Layers of a model's source."""

QUICK = ("nnx_mlp", "equinox_vit")
NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in MODELS]
TRAINED = [pytest.param(name, marks=() if name == "nnx_mlp" else pytest.mark.slow) for name in MODELS]
"""The larger models are slow: burn differentiates its own ops, and tests/dialect/adjoint tests the rule of each."""


@pytest.fixture(scope="module")
def made() -> Iterator[dict[str, Model]]:
    yield {}


def model_of(made: dict[str, Model], name: str) -> tuple[Model, Any, Any]:
    """The model, its function for burn, and its results."""
    if name not in made:
        made[name] = MODELS[name]()
    model = made[name]
    want = jax.jit(model.function)(model.parameters, *model.inputs)
    return model, burn.from_jax(model.function, model.parameters), want


def near(have: Any, want: Any) -> None:
    np.testing.assert_allclose(np.asarray(have), np.asarray(want), rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", NAMES)
def test_runs_and_becomes_source_that_reloads(made: dict[str, Model], name: str) -> None:
    model, function, want = model_of(made, name)
    near(burn.compile(function, model.specs)(*model.inputs), want)
    source = generate(program_of(function, model.specs), "Model", name)
    assert all(layer in source.text for layer in LAYERS.get(name, ())), source.text
    module = source.load()
    inputs = [np.asarray(x) for x in model.inputs]
    near(burn.compile(module, tuple(model.specs))(*inputs), want)


@pytest.mark.parametrize("name", TRAINED)
def test_is_trained(made: dict[str, Model], name: str) -> None:
    model, function, _ = model_of(made, name)
    trained = burn.compile(function, model.specs, train=True)
    inputs = [np.asarray(x) for x in model.inputs]

    axis = model.batch_axis

    def loss(m: Any, *xs: Any) -> Any:
        return (m(*(x.transpose(0, axis) if axis else x for x in xs)) ** 2).mean()

    def loss_of_jax(p: Any) -> Any:
        return jnp.mean(model.function(p, *model.inputs) ** 2)

    step = burn.train.step(trained, loss, burn.optim.SGD(trained, lr=0.1))
    before = {n: p.numpy().copy() for n, p in trained.named_parameters()}
    inputs = [np.moveaxis(x, axis, 0) for x in inputs]
    first = float(step(*inputs))
    value, gradients = jax.value_and_grad(loss_of_jax, allow_int=True)(model.parameters)
    near(first, value)
    parameters = function.parameters
    found = dict(trained.named_parameters())
    given = zip(parameters.names, parameters.trained, parameters.arrays, jax.tree.leaves(gradients), strict=True)
    for path, moves, array, gradient in given:
        if moves and is_float(array.dtype):
            near(found[path].numpy(), before[path] - 0.1 * np.asarray(gradient))
    assert float(step(*inputs)) < first


@pytest.mark.parametrize("name", NAMES)
def test_becomes_onnx(made: dict[str, Model], name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    model, function, want = model_of(made, name)
    burn.export(function, tmp_path / "m.onnx", model.specs)
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    feeds = {i.name: np.asarray(x) for i, x in zip(session.get_inputs(), model.inputs, strict=True)}
    near(session.run(None, feeds)[0], want)


@pytest.mark.parametrize("name", NAMES)
def test_becomes_a_c_library(made: dict[str, Model], name: str, tmp_path: Path) -> None:
    """Called through its C interface, at the size that JAX ran and at another one."""
    model, function, want = model_of(made, name)
    program = program_of(function, model.specs)
    reference = burn.compile(function, model.specs).executable
    library = Library(make("shared", program, tmp_path / "model.so"), "model", reference.outputs)
    inputs = [np.asarray(x) for x in model.inputs]
    (found,) = library.run(_given(reference, inputs))
    near(found, want)
    rows = [np.take(x, [0, 1, 0], model.batch_axis) for x in inputs]
    (found,) = library.run(_given(reference, rows))
    near(found, jax.jit(model.function)(model.parameters, *rows))
    library.close()


def _given(program: burn.Executable, inputs: list[Any]) -> list[Any]:
    return [(np.ascontiguousarray(x), spec.dtype) for x, spec in zip(inputs, program.inputs, strict=True)]


def test_layers_of_the_source() -> None:
    """A bias that JAX adds after the axes are moved back belongs to the layer."""
    parameters = {
        "dense": {"kernel": jnp.ones((4, 6)), "bias": jnp.arange(6.0)},
        "conv": {"kernel": jnp.ones((3, 3, 2, 5)), "bias": jnp.arange(5.0)},
        "first": {"weight": jnp.ones((3, 4)), "bias": jnp.arange(3.0)},
    }

    def function(p: Any, x: Any, image: Any) -> Any:
        y = jax.nn.relu(x @ p["dense"]["kernel"] + p["dense"]["bias"])
        z = jax.vmap(lambda v: p["first"]["weight"] @ v + p["first"]["bias"])(x)
        numbers = ("NHWC", "HWIO", "NHWC")
        c = jax.lax.conv_general_dilated(image, p["conv"]["kernel"], (1, 1), "SAME", dimension_numbers=numbers)
        return y, z, c + p["conv"]["bias"].reshape(1, 1, 1, -1)

    program = program_of(burn.from_jax(function, parameters), ("float32[n, 4]", "float32[n, 5, 5, 2]"))
    text = generate(program, "Model", "layers").text
    assert "nn.Linear(4, 6)" in text and "nn.Linear(4, 3)" in text and "nn.Conv2d(2, 5, 3, padding=1)" in text
    assert "bias=False" not in text and "relu" in text


def test_a_training_step_of_optax() -> None:
    optax = pytest.importorskip("optax")
    optimizer = optax.adamw(0.05)

    def step(w: Any, state: Any, x: Any, y: Any) -> Any:
        loss, gradient = jax.value_and_grad(lambda w: jnp.mean((x @ w - y) ** 2))(w)
        updates, state = optimizer.update(gradient, state, w)
        return optax.apply_updates(w, updates), state, loss

    w, x = jnp.ones((3, 2)), jax.random.normal(jax.random.key(0), (8, 3))
    y = x[:, :2] * 2
    state = optimizer.init(w)
    compiled = burn.compile(jax.jit(step), (w, state, x, y))
    mine: Any = (w, state)
    theirs: Any = (w, state)
    for _ in range(4):
        *mine, loss = compiled(mine[0], mine[1], x, y)
        *theirs, want = step(theirs[0], theirs[1], x, y)
        near(loss, want)
    assert jax.tree.structure(mine[1]) == jax.tree.structure(state)


def test_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from burn.cli.compile import main as compile_
    from burn.cli.import_ import main as import_

    monkeypatch.chdir(tmp_path)
    (tmp_path / "scaling.py").write_text("import jax.numpy as jnp\n\ndef scaled(x):\n    return jnp.tanh(x) * 2\n")
    for command, output in ((compile_, "scaled.burn"), (import_, "source")):
        result = CliRunner().invoke(command, ["scaling.py:scaled", "--input", "x=float32[n,4]", "-o", output])
        assert result.exit_code == 0, result.output
    run = burn.load(tmp_path / "scaled.burn")
    near(run(np.ones((2, 4), np.float32)), np.tanh(np.ones((2, 4))) * 2)
    assert "tanh" in (tmp_path / "source" / "model.py").read_text()
