"""The derivatives of every layer and loss, by its inputs and its parameters, beside torch's in float64."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.tensors import trees

torch = pytest.importorskip("torch")
from tests.nn.test_layers import _flat, _theirs, drawn  # noqa: E402
from tests.nn.torch_table import LAYERS, Drawn  # noqa: E402

WITHOUT = {
    "CTCLoss": "torch's counts the log_softmax in front of it in: compared with that, below",
    "TransformerEncoder": "is its layers, which are compared",
    "TransformerDecoder": "is its layers, which are compared",
}
"""Layers whose derivatives are not compared, and why."""


def _weights(shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    return [rng.standard_normal(shape) for shape in shapes]


def _by(name: str, row: Drawn) -> list[int]:
    """The inputs that derivatives are taken by: those with floats, but for a loss's target."""
    last = len(row.inputs) - name.endswith("Loss")
    return [i for i, x in enumerate(row.inputs[:last]) if x.dtype.kind == "f"]


def _of_theirs(row: Drawn, by: list[int]) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """torch's derivatives by the float inputs, and by its parameters' names."""
    module = row.module or row.theirs
    inputs = [_theirs(x) for x in row.inputs]
    for i in by:
        inputs[i].requires_grad_(True)
    results = [t for t in _flat(row.theirs(*inputs, **row.their_options)) if t.is_floating_point()]
    total: Any = sum(
        (t * torch.from_numpy(w)).sum() for t, w in zip(results, _weights([t.shape for t in results]), strict=True)
    )
    total.backward()
    grads = [np.zeros(t.shape) if t.grad is None else t.grad.numpy() for t in (inputs[i] for i in by)]
    state: dict[str, np.ndarray] = {}
    if isinstance(module, torch.nn.Module):
        state = {k: v.detach().numpy().astype(np.float32) for k, v in module.state_dict().items()}
        for name, p in module.named_parameters():
            state[name] = np.zeros(p.shape, np.float32) if p.grad is None else p.grad.numpy().astype(np.float32)
    return grads, state


def _of_ours(row: Drawn, by: list[int]) -> tuple[list[burn.Tensor], dict[str, burn.Tensor]]:
    def total(model: nn.Module, *given: burn.Tensor) -> burn.Tensor:
        inputs = [burn.constant(x) for x in row.inputs]
        for i, tensor in zip(by, given, strict=True):
            inputs[i] = tensor
        results = [t for t in _flat((row.call or model)(*inputs, **row.options)) if t.dtype == "float32"]
        weights = _weights([tuple(t.shape) for t in results])
        parts = [(t * burn.constant(w.astype(np.float32))).sum() for t, w in zip(results, weights, strict=True)]
        return functools.reduce(operator.add, parts)

    argnums = tuple(range(1 + len(by)))
    grads = burn.grad(total, argnums)(row.ours, *(burn.constant(row.inputs[i]) for i in by))
    return list(grads[1:]), grads[0]


@pytest.mark.parametrize("name", [n for n in LAYERS if n not in WITHOUT])
def test_derivatives_are_torchs(name: str) -> None:
    row, want = drawn(name, 0)
    by = _by(name, row)
    if not any(w.dtype.kind == "f" for w in want) or not (by or list(row.ours.parameters())):
        return
    of_inputs, of_parameters = _of_ours(row, by)
    want_inputs, state = _of_theirs(row, by)
    pairs = [(g.numpy(), w, f"input {i}") for i, (g, w) in enumerate(zip(of_inputs, want_inputs, strict=True))]
    if of_parameters:
        twin = row.ours.clone()
        twin.load(state, adapter="torch")
        there = dict(twin.named_parameters())
        pairs += [(g.numpy(), there[path].array, path) for path, g in of_parameters.items()]
    for got, wanted, what in pairs:
        assert got.shape == wanted.shape, what
        scale = np.abs(wanted[np.isfinite(wanted)]).max(initial=0.0)
        np.testing.assert_allclose(got, wanted, rtol=5e-5, atol=5e-5 * scale + 1e-6, err_msg=f"{what} of {row.ours!r}")


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in LAYERS if n not in WITHOUT])
def test_a_batch_that_varies(name: str) -> None:
    """Compiled with a size in the place of the batch, the derivatives are those of the ops that are recorded."""
    row, want = drawn(name, 1)
    by = _by(name, row)
    one = all(x.ndim for x in row.inputs) and len({x.shape[0] for x in row.inputs}) == 1
    if not one or not any(w.dtype.kind == "f" for w in want) or not (by or list(row.ours.parameters())):
        return

    def total(model: nn.Module, floats: list[burn.Tensor], xs: list[burn.Tensor]) -> burn.Tensor:
        inputs = list(xs)
        for i, tensor in zip(by, floats, strict=True):
            inputs[i] = tensor
        results = [t for t in _flat((row.call or model)(*inputs, **row.options)) if t.dtype == "float32"]
        weights = [(burn.arange(t.size, dtype="float32").reshape(t.shape) * 0.7 + 1.0).sin() for t in results]
        return functools.reduce(operator.add, [(t * w).sum() for t, w in zip(results, weights, strict=True)])

    def derivatives(xs: list[burn.Tensor]) -> Any:
        wanted = (0, 1) if by else 0
        return burn.grad(total, wanted)(row.ours, [xs[i] for i in by], xs)

    compiled = trees.flatten(burn.jit(derivatives, dynamic={"xs": {0: "batch"}})(list(row.inputs)))[0]
    recorded = trees.flatten(derivatives(list(map(burn.constant, row.inputs))))[0]
    for got, wanted in zip(compiled, recorded, strict=True):
        array = wanted.numpy()
        scale = np.abs(array[np.isfinite(array)]).max(initial=0.0)
        np.testing.assert_allclose(np.asarray(got), array, rtol=1e-4, atol=1e-4 * scale + 1e-6)


def test_ctc_behind_the_softmax_that_torch_counts_in() -> None:
    row, _ = drawn("CTCLoss", 0)
    scores = row.inputs[0]
    ours = burn.grad(lambda x: row.ours(x.log_softmax(-1), *map(burn.constant, row.inputs[1:])).sum())
    theirs = torch.from_numpy(scores).double().requires_grad_(True)
    result = row.theirs(theirs.log_softmax(-1), *map(torch.from_numpy, row.inputs[1:]), **row.their_options).sum()
    result.backward()
    np.testing.assert_allclose(ours(burn.constant(scores)).numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-5)
