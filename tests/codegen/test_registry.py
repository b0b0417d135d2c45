"""Back ends come from the registry: one that this file brings compiles, and nothing else names it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

import burn
from burn.codegen.backend import Backend, Built, Printer
from burn.codegen.pipeline import Pipeline
from burn.compiler import compile_program, described, listing
from burn.deploy.gpus import find
from burn.dialect.program import Program
from burn.errors import CompileError, DeviceError, RunError
from burn.kernels.preferences import Preferences
from burn.kernels.text import program_text
from burn.options import Options
from burn.runtime import Executable, registry
from burn.runtime.artefact import Artefact, Target
from burn.runtime.device import device
from burn.runtime.memory import HOST
from burn.runtime.registry import Entry
from burn.tracing.trace import trace


@dataclass(frozen=True)
class TextPrinter(Printer):
    unrolled: bool
    preferences: Preferences

    @property
    def runs_on(self) -> Target:
        return Target("text-none", (), "text")

    def build(self, program: Program) -> Built:
        return Built(self.listing(program).encode(), [], [], [], [], [], [])

    def listing(self, program: Program) -> str:
        return f"// unrolled: {self.unrolled}\n{program_text(program, self.preferences)}"


@dataclass(frozen=True)
class Printed(Backend):
    """Code is the text of the kernels, and runs nowhere."""

    unrolled: bool = False

    @property
    def name(self) -> str:
        return "text"

    @property
    def pipeline(self) -> Pipeline:
        return Pipeline.of("simplify,decompose,fuse,release")

    @property
    def printer(self) -> TextPrinter:
        return TextPrinter(self.unrolled, self.preferences)


@pytest.fixture
def kind() -> Iterator[str]:
    registry.register(
        "text",
        Entry(
            lambda options: Printed(options.exact),
            packages=("numpy",),
            language="text",
            suffix=".txt",
            about="kernels",
            architectures=lambda: {"a1": 64},
        ),
    )
    yield "text"
    registry.unregister("text")


def program() -> Program:
    return trace(lambda x: burn.softmax(x, axis=-1) @ x.T, {"x": "float32[n, 8]"})


def test_a_back_end_from_outside(kind: str) -> None:
    options = Options.of(device=kind, autotune="off", exact=True)
    made = compile_program(program(), options)
    text = bytes(made.code).decode()
    assert text.startswith("// unrolled: True") and "parallel" in text and made.target.kind == kind
    assert made.signature.inputs[0].type_text == "float32[n, 8]"
    assert listing(program(), options) == text == bytes(described(program(), options)[0].code).decode()
    assert registry.languages()[kind] == kind
    assert registry.architectures()["text:a1"] == 64 and find("text:a1").device == device(kind)


def test_its_artefacts_are_its_own(kind: str) -> None:
    options = Options.of(device=kind, autotune="off")
    assert device(kind).memory == HOST and device(kind).is_present
    assert any(part.startswith("numpy ") for part in options.identity())
    assert options.identity() != Options.of(autotune="off").identity()
    made = compile_program(program(), options)
    assert isinstance(made, Artefact)
    with pytest.raises(RunError, match="cannot run here"):
        Executable(made)


@pytest.mark.parametrize("mode", ["off", "any:3", "fast"])
def test_autotuning_has_nothing_to_choose(kind: str, mode: str) -> None:
    made = compile_program(program(), Options.of(device=kind, autotune=mode))
    assert b"parallel" in bytes(made.code)


def test_defaults_of_the_protocol(kind: str) -> None:
    with pytest.raises(CompileError, match="kernels for text read no panels"):
        compile_program(
            trace(lambda x: x @ np.ones((64, 64), "float32"), {"x": "float32[64, 64]"}),
            Options.of(device=kind, passes="decompose,pack,fuse,release"),
        )


def test_what_is_not_registered_is_refused(kind: str) -> None:
    with pytest.raises(CompileError, match="a back end for 'text' already"):
        registry.register(kind, Entry(lambda options: Printed()))
    registry.unregister(kind)
    with pytest.raises(DeviceError, match="there is no device 'text'"):
        Options.of(device=kind)
    registry.register(kind, Entry(lambda options: Printed(), own_memory=True))
    assert device("text:2").memory != device("text").memory != HOST
