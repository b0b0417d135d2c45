"""Costs of CPUs: bounds, defaults, the file of measured costs, and programs under extreme but valid costs."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

import burn
from burn.codegen.cpu import measured
from burn.codegen.cpu.backend import for_options
from burn.codegen.cpu.costs import Costs
from burn.codegen.cpu.measured import Measurement
from burn.codegen.cpu.target import TARGETS, Target, host_targets, resolved
from burn.codegen.tuning import clock
from burn.compiler import executable
from burn.dialect.program import Program
from burn.errors import CompileError
from burn.options import Options
from burn.runtime import machine_costs
from burn.runtime.cache import CacheWarning
from burn.runtime.host import features, processor
from tests.fuzz.compilation import extreme
from tests.fuzz.onnx.case import Plan, run
from tests.fuzz.runner import check
from tests.fuzz.tensors.case import case
from tests.generated.programs import PROGRAMS

SWEEP = int(os.environ.get("BURN_SWEEP", "0"))
FIRST = int(os.environ.get("BURN_SWEEP_SEED", "0"))


# ---- the record --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_defaults_are_valid(target: Target) -> None:
    assert Costs().changed(asdict(target.costs)) == target.costs


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("speed", 1, "there is no cost 'speed'"),
        ("grain", 1.5, "grain is no whole number"),
        ("grain", True, "grain is no whole number"),
        ("grain", "4096", "grain is no whole number"),
        ("grain", 0, "grain is 0, which is not between 256 and 16777216"),
        ("grain", 10**30, "which is not between 256 and 16777216"),
        ("unroll", 3, "unroll is 3, which is no power of two"),
    ],
)
def test_values_from_outside_are_checked(name: str, value: object, text: str) -> None:
    with pytest.raises(CompileError, match=text):
        Costs().changed({"chains": 4, name: value})


# ---- the file ----------------------------------------------------------------------------------------------------------


def measurement(**values: int) -> Measurement:
    """As `burn tune-machine` would measure these."""
    return Measurement(processor(), resolved(None).name, 2, 1.0, values, {"held": "it has no measurement"})


@pytest.fixture
def stored(own_cache: Path) -> Iterator[Callable[..., Path]]:
    """Writes a measurement of this machine to an empty cache."""
    yield lambda **values: machine_costs.save(measurement(**values).record())
    machine_costs.remove()


def test_compilations_use_measured_costs(stored: Callable[..., Path]) -> None:
    own = resolved(None)
    assert for_options(Options()).target == own
    stored(grain=50_000, attention_keys=64)
    found = for_options(Options()).target
    assert found == replace(own, costs=replace(own.costs, grain=50_000, attention_keys=64))
    assert for_options(Options(exact=True)).target.costs == own.costs
    assert machine_costs.remove() and not machine_costs.remove()
    assert for_options(Options()).target == own


def test_a_named_cpu_has_the_same_code_everywhere(stored: Callable[..., Path]) -> None:
    named = [Options(target=each.name) for each in host_targets(features())]
    named += [Options(target=TARGETS["neon"], as_text=True), Options(exact=True)]
    before = [options.identity() for options in named], Options().identity()
    stored(grain=50_000)
    assert [options.identity() for options in named] == before[0]
    assert Options().identity() != before[1]
    assert all(for_options(options).target.costs == resolved(options.target).costs for options in named)


def test_the_cache_has_a_program_for_each_costs(stored: Callable[..., Path]) -> None:
    def compiled() -> int:
        """The compilations that a program takes, which must be right."""
        before = burn.compile_count()
        program = burn.compile(lambda x: x @ burn.constant(weight), ("float32[n, 5]",))
        np.testing.assert_allclose(program(x), x @ weight, rtol=1e-5)
        return burn.compile_count() - before

    x, weight = np.random.default_rng(0).standard_normal((2, 5, 5), np.float32)
    assert (compiled(), compiled()) == (1, 0)
    stored(panel_vectors=1)
    assert (compiled(), compiled()) == (1, 0)
    stored(panel_vectors=2)
    assert compiled() == 1
    machine_costs.remove()
    assert compiled() == 0


VALID = measurement(grain=50_000).record()
DAMAGED = {
    "empty": b"",
    "cut": json.dumps(VALID).encode()[:-20],
    "deep": b"[" * 60_000,
    "long number": b'{"format": ' + b"1" * 6_000 + b"}",
    "no text": b"\xff\xfe" * 9,
    "a list": b"[1, 2]",
    "another format": json.dumps(VALID | {"format": 2}).encode(),
    "another version": json.dumps(VALID | {"burn": "0.0.0"}).encode(),
    "another CPU": json.dumps(VALID | {"processor": "a CPU"}).encode(),
    "another target": json.dumps(VALID | {"target": "neon"}).encode(),
    "no values": json.dumps(VALID | {"measured": None}).encode(),
    "a long time": json.dumps(VALID | {"seconds": 10**400}).encode(),
    "an unknown cost": json.dumps(VALID | {"measured": {"speed": 1}}).encode(),
    "out of bounds": json.dumps(VALID | {"measured": {"grain": 9, "chunk": 1024}}).encode(),
    "NaN": json.dumps(VALID | {"measured": {"grain": float("nan")}}).encode(),
    "reasons that are no text": json.dumps(VALID | {"kept": {"held": [1]}}).encode(),
    "too large": json.dumps(VALID).encode() + b" " * machine_costs.LARGEST,
}


@pytest.mark.parametrize("content", DAMAGED.values(), ids=DAMAGED)
def test_damaged_files_are_not_used(stored: Callable[..., Path], content: bytes) -> None:
    path = stored()
    path.write_bytes(content)
    with pytest.warns(CacheWarning, match="the measured costs of this machine are not used"):
        assert for_options(Options()).target == resolved(None)


def test_files_of_others_are_not_used(stored: Callable[..., Path]) -> None:
    stored(grain=50_000).chmod(0o620)
    with pytest.warns(CacheWarning, match="others may write to"):
        assert for_options(Options()).target == resolved(None)


def test_a_process_keeps_the_costs_that_it_read(stored: Callable[..., Path]) -> None:
    """Otherwise a program could be cached under a key of other costs."""
    path = stored(grain=50_000)
    before = Options().identity()
    path.write_text(json.dumps(measurement(grain=60_000).record()))
    assert Options().identity() == before and for_options(Options()).target.costs.grain == 50_000


def test_without_a_cache_there_are_no_measured_costs(
    stored: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(grain=50_000)
    monkeypatch.setenv("BURN_CACHE_SIZE", "0")
    assert for_options(Options()).target == resolved(None)


# ---- extreme costs -----------------------------------------------------------------------------------------------------


@pytest.fixture
def under(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Compiles with the extreme costs of a seed from now on."""
    return lambda seed: monkeypatch.setattr(measured, "costs", lambda target: replace(target.costs, **extreme(seed)))


def results(make: Callable[[], Program], target: Target | None = None) -> list[np.ndarray]:
    """Of a program on random inputs, whose named sizes are typical ones."""
    program = make()
    count = len(program.inputs) - program.random_state
    inputs = [clock._made_up(each, number) for number, each in enumerate(program.input_types[:count])]
    found = executable(program, Options(target=target))(*inputs)
    return list(found) if isinstance(found, tuple) else [found]


def check_program(name: str, seed: int) -> None:
    """On one of the CPUs that this one can stand in for."""
    targets = host_targets(features())
    target = targets[seed % len(targets)]
    expected = results(PROGRAMS[name], target)
    found = results(PROGRAMS[name], replace(target, costs=replace(target.costs, **extreme(seed))))
    for got, want in zip(found, expected, strict=True):
        finite = want[np.isfinite(want)].astype(np.float64)
        scale = float(np.max(np.abs(finite), initial=1))
        rounding = 1e-2 if want.dtype.itemsize == 2 else 1e-3  # bfloat16 has eight bits
        np.testing.assert_allclose(got, want, rtol=rounding, atol=2e-5 * scale)


@pytest.mark.parametrize(("name", "seed"), [("few_bits", 1), ("winograd", 2), ("encoder", 3)])
def test_programs_agree_under_extreme_costs(name: str, seed: int) -> None:
    check_program(name, seed)


@pytest.mark.skipif(not SWEEP, reason="BURN_SWEEP is the number of seeds")
@pytest.mark.parametrize("name", PROGRAMS)
def test_more_programs_agree_under_extreme_costs(name: str) -> None:
    for seed in range(FIRST, FIRST + max(1, SWEEP // 10)):
        check_program(name, seed)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(3, SWEEP)))
def test_random_tensor_programs_under_extreme_costs(seed: int, under: Callable[[int], None]) -> None:
    under(seed)
    check(case, seed)


@pytest.mark.parametrize("seed", range(FIRST, FIRST + max(3, SWEEP)))
def test_random_onnx_graphs_under_extreme_costs(seed: int, under: Callable[[int], None]) -> None:
    under(seed)
    outcome = run(seed, Plan("load", None, threads=1, length=12))
    assert not outcome.failed, outcome.text
