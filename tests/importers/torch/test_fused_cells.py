"""Cells of recurrent networks as AOTAutograd traces them on GPUs: one operator for each cell, and one for its gradient.

The graphs are made here and run on the CPU. Eager cells in float64 decide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from burn.adapters.torch.dynamo import compile_graph  # noqa: E402
from burn.importers.torch.decompositions import for_autograd  # noqa: E402

aten = torch.ops.aten
BATCH, INPUT, HIDDEN = 3, 5, 7
TOLERANCE = {"float64": 1e-10, "float32": 1e-5, "bfloat16": 4e-2, "float16": 5e-3}


def run(function: Callable[..., Any], *given: Any) -> list[Any]:
    with FakeTensorMode() as mode:
        graph = make_fx(function, decomposition_table=for_autograd())(*[mode.from_tensor(t) for t in given])
    assert "_thnn" not in graph.code
    return compile_graph(graph, given)(list(given))


def lstm(x: Any, h: Any, c: Any, g: Any, w: Any, r: Any, *biases: Any) -> list[Any]:
    """The results and gradients of `lstm_cell`, as autograd computes them from the fused operators."""
    new_h, new_c, workspace = aten._thnn_fused_lstm_cell(x @ w.t(), h @ r.t(), c, *biases)
    gates, of_c, bias = aten._thnn_fused_lstm_cell_backward_impl(g, 2 * g, c, new_c, workspace, bool(biases))
    return [new_h, new_c, gates @ w, gates @ r, of_c, gates.t() @ x, gates.t() @ h, *[bias for _ in biases]]


def gru(x: Any, h: Any, g: Any, w: Any, r: Any, *biases: Any) -> list[Any]:
    new, workspace = aten._thnn_fused_gru_cell(x @ w.t(), h @ r.t(), h, *biases)
    found = aten._thnn_fused_gru_cell_backward(g, workspace, bool(biases))
    of_x, of_h, of_old, *of_biases = found
    return [new, of_x @ w, of_h @ r + of_old, of_x.t() @ x, of_h.t() @ h, *(of_biases if biases else ())]


def close(got: list[Any], want: list[Any], dtype: str) -> None:
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert a.dtype == getattr(torch, dtype)
        torch.testing.assert_close(a.double(), b, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


@pytest.mark.parametrize("biased", [True, False])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", ["LSTMCell", "GRUCell"])
def test_results_and_gradients(kind: str, dtype: str, biased: bool) -> None:
    torch.manual_seed(1)
    cell = getattr(torch.nn, kind)(INPUT, HIDDEN, bias=biased)
    states = 2 if kind == "LSTMCell" else 1
    drawn = [torch.randn(BATCH, n) for n in (INPUT, *[HIDDEN] * (states + 1))]
    given = [t.detach().to(getattr(torch, dtype)) for t in (*drawn, *cell.parameters())]
    got = run(lstm if states == 2 else gru, *given)

    x, *before, g = [t.double().requires_grad_() for t in given[: states + 2]]
    cell = cell.double()
    for parameter, value in zip(cell.parameters(), given[states + 2 :], strict=True):
        parameter.data = value.double()
    new = cell(x, tuple(before) if states == 2 else before[0])
    outputs = list(new) if states == 2 else [new]
    factors = [g, 2 * g][:states]
    grads = torch.autograd.grad(outputs, [x, *before, *cell.parameters()], [f.detach() for f in factors])
    close(got, [*outputs, *grads], dtype)


def test_an_lstm_cell_of_which_one_state_has_a_gradient() -> None:
    def function(grad: Any, c: Any, new: Any, workspace: Any) -> list[Any]:
        of_h = aten._thnn_fused_lstm_cell_backward_impl(grad, None, c, new, workspace, False)
        of_c = aten._thnn_fused_lstm_cell_backward_impl(None, grad, c, new, workspace, False)
        both = aten._thnn_fused_lstm_cell_backward_impl(grad, grad, c, new, workspace, False)
        return [of_h[0], of_c[0], both[0], of_h[1], of_c[1], both[1]]

    grad, c, new = (torch.randn(BATCH, HIDDEN) for _ in range(3))
    found = run(function, grad, c, new, torch.rand(BATCH, 4 * HIDDEN))
    for h, c, both in (found[:3], found[3:]):
        torch.testing.assert_close(h + c, both)
