"""torch's recurrent networks: whole operators, whose steps are loops, beside torch's own results."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch._decomp import decompositions

import burn
from burn.dialect.text import to_text
from burn.importers.torch.export import export
from burn.importers.torch.exported import import_exported

INPUTS, HIDDEN, BATCH = 4, 3, 2


class Network(torch.nn.Module):
    def __init__(self, kind: str, **options: Any) -> None:
        super().__init__()
        self.layer = getattr(torch.nn, kind)(INPUTS, HIDDEN, **options)

    def forward(self, x: torch.Tensor, *states: torch.Tensor) -> Any:
        given = (states if len(states) > 1 else states[0],) if states else ()
        return self.layer(x, *given)


CASES = [
    ("LSTM", {"bidirectional": True, "num_layers": 2}, 11),
    ("LSTM", {"batch_first": True, "bias": False}, 3),
    ("LSTM", {"proj_size": 2, "bidirectional": True}, 9),
    ("LSTM", {"proj_size": 1, "bias": False, "num_layers": 2}, 1),
    ("GRU", {"bidirectional": True, "num_layers": 2, "batch_first": True}, 9),
    ("GRU", {"bias": False}, 1),
    ("RNN", {"bidirectional": True, "nonlinearity": "relu"}, 10),
    ("RNN", {"num_layers": 2, "bias": False}, 2),
]


@pytest.mark.parametrize(
    ("kind", "options", "steps", "has_states"),
    [(*case, has_states) for case, has_states in zip(CASES, itertools.cycle((True, False)), strict=False)],
)
def test_results(kind: str, options: dict[str, Any], steps: int, has_states: bool) -> None:
    torch.manual_seed(0)
    module = Network(kind, **options).eval()
    x = torch.randn((BATCH, steps, INPUTS) if options.get("batch_first") else (steps, BATCH, INPUTS))
    rows = options.get("num_layers", 1) * (1 + options.get("bidirectional", False))
    states = [torch.randn(rows, BATCH, options.get("proj_size", HIDDEN))]
    states += [torch.randn(rows, BATCH, HIDDEN)] if kind == "LSTM" else []
    given = (x, *(states if has_states else ()))
    want = torch.utils._pytree.tree_leaves(module.double()(*(t.double() for t in given)))
    got = torch.utils._pytree.tree_leaves(burn.compile(module.float(), given)(*given))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(torch.as_tensor(one).double(), other, rtol=1e-5, atol=1e-6)


def test_a_program_does_not_grow_with_the_steps() -> None:
    texts = [to_text(import_exported(export(Network("LSTM"), (torch.randn(n, 2, INPUTS),)).program)) for n in (20, 40)]
    assert texts[0].count("burn.lstm") == 1
    assert texts[0].count("\n") == texts[1].count("\n")


def test_exported_without_onednn() -> None:
    """The fake results of oneDNN's recurrent layers have a shape of their own in torch 2.11, which is refused."""
    enabled: list[bool] = []

    class Observed(Network):
        def forward(self, x: torch.Tensor, *states: torch.Tensor) -> Any:
            enabled.append(torch._C._get_mkldnn_enabled())
            return super().forward(x, *states)

    before = torch._C._get_mkldnn_enabled()
    export(Observed("LSTM"), (torch.ones(5, BATCH, INPUTS),))
    assert enabled and not any(enabled)
    assert torch._C._get_mkldnn_enabled() == before


@pytest.mark.parametrize("bidirectional", [False, True])
def test_states_that_torch_describes_with_an_axis_too_many(
    bidirectional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch 2.11 does, and a module may compute with them."""
    true = decompositions.one_layer_lstm

    def wrong(x: Any, *rest: Any, **named: Any) -> Any:
        y, last = true(x, *rest, **named)
        return y, tuple(state.unsqueeze(0) for state in last)

    class Last(Network):
        def forward(self, x: torch.Tensor, *states: torch.Tensor) -> Any:
            _, (h, c) = self.layer(x)
            return h.transpose(0, 1).flatten(1) * 2, c[-1]

    monkeypatch.setattr(decompositions, "one_layer_lstm", wrong)
    module = Last("LSTM", bidirectional=bidirectional, proj_size=2).eval()
    x = torch.randn(3, BATCH, INPUTS)
    with torch.no_grad():
        want = module(x)
    got = burn.compile(module, (x,))(x)
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(torch.as_tensor(one), other)
