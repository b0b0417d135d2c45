"""The autotuning, CPU, costs and threads of drawn programs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import burn
from burn.codegen.cpu import candidates
from tests.fuzz import compilation
from tests.fuzz.compilation import chosen
from tests.fuzz.runner import check
from tests.fuzz.tensors.case import case


def code(seed: int, autotune: str) -> bytes:
    w = np.random.default_rng(0).standard_normal((40, 33)).astype(np.float32)
    with chosen(seed, autotune):
        return bytes(burn.compile(lambda x: x @ burn.constant(w), ["float32[20, 40]"], cache=False).artefact.code)


@pytest.mark.parametrize("autotune", ["any", "fast"])
def test_seeds_have_variants(autotune: str) -> None:
    found = [code(seed, autotune) for seed in range(4)]
    assert len(set(found)) > 1 and code(2, autotune) == found[2]


def test_targets_and_costs(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = code(0, "")
    monkeypatch.setenv(compilation.TARGET, "generic")
    generic = code(0, "")
    monkeypatch.setenv(compilation.COSTS, "1")
    assert len({usual, generic, code(0, ""), code(1, "")}) == 4
    monkeypatch.setenv(compilation.THREADS, "2")
    with chosen(0, "any"):
        assert os.environ["BURN_AUTOTUNE"] == "any:0"


def test_unknown_modes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(compilation.AUTOTUNE, "most")
    with pytest.raises(ValueError, match="'most', and none of any, fast, full"):
        check(case, 1)


@pytest.mark.parametrize("autotune", ["any", "full"])
def test_a_wrong_variant_is_seen(autotune: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop without its last elements is among the variants."""

    def wrong(kernel: Any, default: Any, target: Any) -> Sequence[Any]:
        return [replace(default, even=True, left=0)] * bool(default.lane)

    monkeypatch.setattr(candidates, "cuts", wrong)
    x = np.arange(5005, dtype=np.float32) + 1.0
    different = 0
    for seed in range(8):
        x = x * 1.5  # so that memory has no results of an earlier seed
        with chosen(seed, autotune):
            run = burn.compile(lambda x: burn.tanh(x * 1e-5) + 1.0, ["float32[5005]"], cache=False)
            different += not np.allclose(run(x), np.tanh(x * 1e-5) + 1.0)
    assert different
