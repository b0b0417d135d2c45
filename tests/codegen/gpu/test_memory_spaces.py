"""Values have memory spaces, and the entry function copies between them: what lies elsewhere than a kernel works is copied."""

from __future__ import annotations

import re
from typing import Any

import pytest

import burn
from burn.codegen.cpu.backend import CPU
from burn.codegen.cpu.target import TARGETS
from burn.codegen.host.entry import EntryBuilder
from burn.codegen.host.memory import space_of
from burn.codegen.triton.backend import GPU
from burn.compiler import environment
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.passes import pipeline
from burn.runtime.device import CPU as CPU_DEVICE
from burn.runtime.device import Device, device
from burn.runtime.memory import HOST, MemorySpace
from burn.tracing.trace import trace

CUDA = MemorySpace("cuda")


def entry_of(program: Program, gpu: bool) -> tuple[str, list[str]]:
    """The text of the entry function, and the kinds of its launches."""
    backend = (GPU(CPU(TARGETS["avx2"])) if gpu else CPU(TARGETS["avx2"])).session(program)
    pipeline.run(pipeline.parse(backend.pipeline.text), program, environment(backend))
    with context():
        if isinstance(backend, GPU):
            made = EntryBuilder(program, backend.printer.kernels(program), backend.host.target.attributes).build()
            return made.functions[-1], [record.kind for record in made.records]
        return backend.printer.listing(program), []


def called(text: str) -> set[str]:
    return set(re.findall(r"@(burn_rt_\w+)\(", text))


def both(x: Any) -> Any:
    """A kernel, a function of the library, which runs on the host, and a kernel of its result."""
    return burn.nonzero(x * 2)[0] + 1


def test_devices_have_memory() -> None:
    assert CPU_DEVICE.memory == HOST and HOST.is_host
    assert device("cuda:1").memory == MemorySpace("cuda", 1) != device("cuda").memory
    assert not device("cuda").memory.is_host
    assert not Device("hip").memory.is_host  # a kind that a package may name


def test_a_program_on_the_host_copies_nothing() -> None:
    text, _ = entry_of(trace(both, {"x": "float32[n, 8]"}), gpu=False)
    assert not {name for name in called(text) if "device" in name or name in ("burn_rt_send", "burn_rt_fetch")}


def test_copies_around_what_runs_on_the_host() -> None:
    text, kinds = entry_of(trace(both, {"x": "float32[n, 8]"}), gpu=True)
    assert kinds == ["loop", "host", "loop"]
    calls = re.findall(r"@(burn_rt_device_launch|burn_rt_fetch|burn_rt_send|burn_lib_\w+)\(", text)
    library = next(name for name in calls if name.startswith("burn_lib"))
    first, last = calls.index("burn_rt_device_launch"), len(calls) - 1 - calls[::-1].index("burn_rt_device_launch")
    assert first < calls.index("burn_rt_fetch") < calls.index(library) < calls.index("burn_rt_send") < last


def test_strings_stay_in_host_memory() -> None:
    program = trace(lambda x: x == x, {"x": "string[n]"})
    (value,) = program.inputs
    with context():
        assert space_of(value, CUDA) == HOST
        assert space_of(program.outputs[0], CUDA) == CUDA
    text, kinds = entry_of(program, gpu=True)
    assert kinds == ["host"] and "burn_rt_send" in called(text) and "burn_rt_fetch" not in called(text)


@pytest.mark.parametrize("name", ["alloc", "grow", "copy", "read", "write"])
def test_every_space_has_the_functions(name: str) -> None:
    from burn.codegen.host.memory import function
    from burn.runtime.abi import FUNCTIONS

    assert {function(HOST, name), function(CUDA, name)} <= set(FUNCTIONS)
    assert FUNCTIONS[function(HOST, name)].arguments == FUNCTIONS[function(CUDA, name)].arguments
