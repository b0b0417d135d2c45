"""Processes that crash or hang, and models that torch exports in one way or another, cost themselves only."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnxscript")
pytest.importorskip("onnxruntime")

import torch

from tests.architectures import onnx_ways
from tests.architectures.apart import Apart, Send, apart, limited
from tests.architectures.drawn import Made, floats
from tests.architectures.exporting import ATTEMPTS
from tests.onnx_suite.pool import Died


def test_messages_come_until_the_end() -> None:
    def go(send: Send) -> None:
        send(1)
        send({"two": 2})

    assert list(apart(go, 30)) == [1, {"two": 2}]


def test_a_crash_is_told_after_what_came_before() -> None:
    def go(send: Send) -> None:
        send(1)
        os.write(2, b"error: the reason\n")
        os.abort()

    first, last = apart(go, 30)
    assert first == 1 and isinstance(last, Died) and "SIGABRT" in last.message and "the reason" in last.message


def test_a_hang_ends_at_the_deadline() -> None:
    def go(send: Send) -> None:
        send(1)
        time.sleep(600)

    process = Apart(go, 300)
    assert process.take() == 1
    process.deadline = 0.0
    assert process.take() == Died("timeout", "no answer after 300 seconds")


def test_time_is_limited() -> None:
    with pytest.raises(TimeoutError), limited(0.05):
        while True:
            pass


class Cached(torch.nn.Module):
    """Returns a cache by default; `guarded` makes torch.export fail, and `torch.jit.trace` ignores it."""

    def __init__(self, guarded: bool = False) -> None:
        super().__init__()
        self.linear, self.guarded = torch.nn.Linear(4, 3), guarded

    def forward(self, x: torch.Tensor, use_cache: bool = True) -> dict[str, Any]:
        y = self.linear(x)
        if self.guarded and y.sum() > 1e9:
            y = -y
        return {"logits": y, "past_key_values": y + 1} if use_cache else {"logits": y, "past_key_values": None}


def made(guarded: bool) -> Made:
    return Made(Cached(guarded).eval(), lambda batch: {"x": floats(batch, 4)}, ("x",))


@pytest.fixture(scope="module")
def plain() -> Made:
    """Its files are kept from test to test."""
    return made(False)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("guarded", "attempt"), [(True, "TorchScript"), (False, "dynamo")])
def test_the_first_export_that_works_is_compared(plain: Made, guarded: bool, attempt: str) -> None:
    case = made(True) if guarded else plain
    error, _, how = onnx_ways.loaded(case, ours=True).partition(", ")
    assert float(error) < 1e-5 and how == attempt
    assert all(p.requires_grad for p in case.model.parameters()) and not case.model.training


@pytest.mark.filterwarnings("ignore")
def test_a_file_that_is_wrong_is_no_failure_of_burn(plain: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is right is a failure of burn, which is made to fail here."""

    def fail(*_: Any) -> Any:
        raise ValueError("no")

    monkeypatch.setattr(onnx_ways.ways, "load", fail)
    with pytest.raises(AssertionError, match="dynamo: ValueError: no"):
        onnx_ways.loaded(plain, ours=True)
    monkeypatch.setattr(onnx_ways, "_peer", fail)
    with pytest.raises(onnx_ways.Unexported, match=f"{ATTEMPTS[-1].name}: ValueError"):
        onnx_ways.loaded(plain, ours=True)
