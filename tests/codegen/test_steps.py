"""Launches as a table of steps: what a small program computes is what straight code does, with any runtime."""

from __future__ import annotations

import re

import numpy as np
import pytest

import burn
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.heuristics.programs import LONG
from burn.codegen.cpu.target import compact, host_target
from burn.codegen.host.steps import LARGEST, Kind, Step, _bytes
from burn.compiler import compile_program
from burn.dialect.program import Program
from burn.options import Options
from burn.runtime.executable import Executable
from burn.runtime.host import features
from tests.deploy.making import traced

SMALL = compact(host_target(features()))


def _layers(x: burn.Tensor) -> burn.Tensor:
    for _ in range(4):
        x = (x @ x).softmax(-1).sum(-1, keepdims=True) + x.transpose(0, 1)
    return x


def _text(program: Program) -> str:
    return CPU(SMALL).printer.listing(_lowered(program))


def _lowered(program: Program) -> Program:
    from burn.compiler import environment
    from burn.passes import pipeline

    backend = CPU(SMALL)
    pipeline.run(pipeline.parse(backend.pipeline.text), program, environment(backend))
    return program


def _numbers(table: bytes) -> list[int]:
    found, number, shift = [], 0, 0
    for byte in table:
        number |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(number)
            number = shift = 0
    return found


@pytest.mark.parametrize("number", [0, 1, 127, 128, 300, 2**32, 2**40 + 1, LARGEST << 2 | 3])
def test_numbers_of_a_table(number: int) -> None:
    assert _numbers(bytes(_bytes(number)) * 2) == [number, number]
    assert number < 2**63


def test_a_program_of_fixed_sizes_is_one_table() -> None:
    text = _text(traced(_layers, x="float32[5, 5]"))
    entry = text[text.index("@burn_entry") :]
    assert re.findall(r"call @(burn_rt_\w+)", entry) == ["burn_rt_steps", "burn_rt_status"]
    (written,) = re.findall(r'constant @steps0\("([^"]*)"\)', text)
    first, *numbers = _numbers(bytes.fromhex(written.replace("\\", "")))
    steps = []
    while (step := numbers.pop(0)) != Step.END:
        count = numbers.pop(0)
        steps.append((step, numbers[:count]))
        del numbers[:count]
    assert first == 0 and not numbers
    assert [step for step, _ in steps][:1] == [Step.PLAN]
    outputs = [words for step, words in steps if step == Step.OUTPUT]
    assert outputs == [[5 << 2, 5 << 2, 100 << 2, 0, outputs[0][-1]]]
    launched = [words for step, words in steps if step >= Step.LAUNCH]
    assert len(launched) >= 8
    assert any(word & 3 == Kind.INPUT for word in launched[0])


def test_layers_that_are_alike_share_kernels_and_branch_nowhere() -> None:
    text = _text(traced(_layers, x="float32[n, n]"))
    entry = text[text.index("@burn_entry") :]
    assert entry.count("@burn_rt_steps") == 1
    assert "@burn_rt_launch" not in entry


@pytest.mark.parametrize("size", [0, 1, 7, 130])
def test_the_usual_runtime_goes_through_it(size: int) -> None:
    x = np.random.default_rng(size).standard_normal((size, size)).astype(np.float32)
    program = traced(_layers, x="float32[n, n]")
    small = Executable(compile_program(program.copy(), Options(target=SMALL)))
    (got,), (want,) = small.run({"x": x}).values(), Executable(compile_program(program)).run({"x": x}).values()
    np.testing.assert_allclose(got, want, rtol=2e-4, atol=1e-4)


def test_a_failure_ends_it() -> None:
    program = traced(lambda x, i: (x[i] * 2).softmax(-1), x="float32[n]", i="int64[m]")
    small = Executable(compile_program(program, Options(target=SMALL)))
    with pytest.raises(burn.BurnError, match="index 9"):
        small.run({"x": np.ones(3, np.float32), "i": np.array([1, 9])})


def _deep(x: burn.Tensor, w: burn.Tensor) -> burn.Tensor:
    for _ in range(3):
        x = ((x @ w).softmax(-1) @ w.transpose(0, 1) + x).sort(-1)
    return x


def _long(monkeypatch: pytest.MonkeyPatch, program: Program) -> Executable:
    """A program compiled for this machine as if it were long."""
    monkeypatch.setattr("burn.codegen.cpu.code_size.LONG", 1)
    return Executable(compile_program(program))


@pytest.mark.parametrize("rows", [0, 1, 2, 129])
def test_a_long_program_chooses_between_kernels_in_its_table(monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    generator = np.random.default_rng(rows)
    weight = burn.tensor(generator.standard_normal((64, 64)).astype(np.float32))
    given = {"x": generator.standard_normal((rows, 64)).astype(np.float32)}
    program = traced(lambda x: _deep(x, weight), x="float32[n, 64]")
    (want,) = Executable(compile_program(program.copy())).run(given).values()
    (got,) = _long(monkeypatch, program).run(given).values()
    np.testing.assert_array_equal(got, want)


def test_launches_that_choose_take_no_code(monkeypatch: pytest.MonkeyPatch) -> None:
    weight = burn.ones(64, 64)

    def entry(layers: int) -> str:
        def chain(x: burn.Tensor) -> burn.Tensor:
            for _ in range(layers):
                x = (x @ weight).relu()
            return x

        text = CPU(host_target(features())).printer.listing(_lowered(traced(chain, x="float32[n, 64]")))
        return text[text.index("@burn_entry") :]

    assert "@burn_rt_launch" in entry(2)
    monkeypatch.setattr("burn.codegen.cpu.code_size.LONG", 1)
    few, many = entry(3), entry(9)
    assert "@burn_rt_launch" not in many
    assert many.count("@burn_rt_steps(") == 1
    assert len(many.splitlines()) - len(few.splitlines()) <= 6  # a buffer's size for each layer more


def test_a_frame_of_many_words_is_not_on_the_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("burn.codegen.host.steps.ON_STACK", 3)
    program = traced(_layers, x="float32[n, n]")
    x = np.random.default_rng(1).standard_normal((7, 7)).astype(np.float32)
    (want,) = Executable(compile_program(program.copy())).run({"x": x}).values()
    long = _long(monkeypatch, program)
    (got,) = long.run({"x": x}).values()
    np.testing.assert_array_equal(got, want)
    assert "@burn_rt_alloc" in CPU(host_target(features())).printer.listing(_lowered(program))


def test_a_program_of_many_launches_is_a_table() -> None:
    def chain(x: burn.Tensor) -> burn.Tensor:
        for _ in range(LONG):
            x = x.cumsum(0)
        return x

    artefact = compile_program(traced(chain, x="int64[3]"))
    assert b"burn_rt_steps" in artefact.code
    (got,) = Executable(artefact).run({"x": np.array([1, 0, 0])}).values()
    assert got.tolist() == [1, LONG, LONG * (LONG + 1) // 2]
