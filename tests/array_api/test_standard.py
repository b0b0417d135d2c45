"""`burn.array_api` against array-api-strict: names, signatures, and drawn calls of every function.

BURN_SWEEP=3000 adds so many calls."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import burn
from tests.array_api import case as cases
from tests.array_api.case import NAMES, UNSUPPORTED, attempt, case, function_of
from tests.fuzz.runner import check, sweep

strict = pytest.importorskip("array_api_strict")

OWN_FLAGS = frozenset({
    "Device", "set_array_api_strict_flags", "get_array_api_strict_flags", "reset_array_api_strict_flags", "ArrayAPIStrictFlags",
    "__version__", "fft", "linalg",
})  # fmt: skip


def names() -> list[str]:
    """Every name of the standard, as array-api-strict has it."""
    main = [n for n in strict.__all__ if n not in OWN_FLAGS]
    inner = [f"{m}.{n}" for m in ("linalg", "fft") for n in getattr(strict, m).__all__]
    return sorted({*main, *inner, "broadcast_shapes", "linalg.eig", "linalg.eigvals"})


def functions() -> list[str]:
    return [n for n in names() if inspect.isfunction(function_of(strict, n))]


@pytest.mark.parametrize("name", [n for n in names() if n not in UNSUPPORTED])
def test_the_name_exists(name: str) -> None:
    assert (
        name.rpartition(".")[2]
        in (function_of(burn.array_api, name.rpartition(".")[0]) if "." in name else burn.array_api).__all__
    )
    theirs: Any = function_of(strict, name)
    ours: Any = function_of(burn.array_api, name)
    if isinstance(theirs, float):
        assert ours == theirs or np.isnan(theirs)
    elif isinstance(theirs, (str, type(None))):
        assert ours == theirs
    elif inspect.isfunction(theirs):
        assert arguments(ours) == arguments(theirs)
    else:
        assert ours == name


def arguments(function: Any) -> list[tuple[str, Any, bool]]:
    """Names, kinds, and if there is a default. A private default of array-api-strict means None."""
    return [(p.name, p.kind, p.default is p.empty) for p in inspect.signature(function).parameters.values()]


def test_every_function_is_drawn() -> None:
    assert not {*functions()} - {*NAMES} - {"__array_namespace_info__"}


def test_almost_every_function_is_there() -> None:
    """97 % of the standard's functions are the goal."""
    missing = [n for n in functions() if n in UNSUPPORTED]
    assert len(missing) <= 0.03 * len(functions()) and len(functions()) > 160


@pytest.mark.parametrize("seed", range(17, 17 + 4 * len(NAMES), 53))
def test_drawn_calls_agree(seed: int) -> None:
    check(case, seed)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_drawn_calls_of_every_function_agree(name: str) -> None:
    for seed in range(5):
        outcome = attempt(name, seed)
        assert not outcome.failed, outcome.detail


test_more_calls = sweep(case)


# ---- the harness itself ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("tanh", lambda x: burn.tanh(x) * 1.001),
        ("ceil", lambda x: burn.floor(x)),
        ("linalg.inv", lambda x: burn.linalg.inv(x) * 1.001),
        ("isnan", lambda x: burn.isnan(x).astype("int64")),
    ],
)
def test_wrong_results_are_seen(name: str, wrong: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, last = name.rpartition(".")
    monkeypatch.setattr(function_of(burn.array_api, module) if module else burn.array_api, last, wrong)
    assert any(cases.attempt(name, seed).kind == "different" for seed in range(12))
