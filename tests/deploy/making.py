"""Helpers for tests of compiled models: programs to compile, commands to run, and libraries called through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.deploy.build import build
from burn.deploy.options import Options
from burn.dialect.program import Program
from burn.exporting import program_of
from burn.loading import read_program
from burn.runtime.artefact import ValueSpec
from burn.runtime.dtypes import CODES, numpy_dtype
from burn.toolchain import platforms
from tests.models import instances

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
MAX_RANK = 16

QUICK = {"mnist"}
"""Reference models that are compiled in a second or two."""

Array = np.ndarray[Any, Any]


def options(**given: Any) -> Options:
    return Options(platforms.find(), **given)


def reference_models() -> list[Any]:
    """The instances of reference models as test parameters (name, exporter), those that are not quick marked as slow."""
    marks = {True: [], False: [pytest.mark.slow]}
    return [pytest.param(*pair, id=".".join(filter(None, pair)), marks=marks[pair[0] in QUICK]) for pair in instances()]


def digits() -> Program:
    """A convolutional network: image float32[batch, 1, 8, 8] -> logits float32[batch, 10]."""
    return read_program(DIGITS)


def traced(function: Callable[..., Any], **inputs: str) -> Program:
    return program_of(function, inputs)


def scores(x: burn.Tensor) -> burn.Tensor:
    """float32[n, 16] -> float32[n, 32]: a matmul and its epilogue."""
    weight = burn.tensor(np.arange(16 * 32, dtype=np.float32).reshape(16, 32))
    return burn.softmax(x @ weight, -1)


def make(kind: str, program: Program, output: Path, **given: Any) -> Path:
    """The main file of a build."""
    return build(kind, program, output, options(**given))[0]


def run(command: Path, *words: str | Path, stdin: bytes = b"") -> bytes:
    """A compiled model's standard output; it must succeed."""
    done = subprocess.run([command, *words], input=stdin, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def refusal(command: Path, *words: str | Path, stdin: bytes = b"") -> tuple[int, str]:
    """The exit status and the message, one line, of a command that must fail."""
    done = subprocess.run([command, *words], input=stdin, capture_output=True)
    said = done.stderr.decode()
    assert done.returncode in (1, 2), (done.returncode, said)
    assert said.count("\n") == 1 and said.endswith("\n"), said
    return done.returncode, said.strip()


class Tensor(ctypes.Structure):
    """burn_tensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("element", ctypes.c_int32),
        ("rank", ctypes.c_int32),
        ("dims", ctypes.c_int64 * MAX_RANK),
    )

    @staticmethod
    def of(array: Array, dtype: str) -> Tensor:
        dims = (ctypes.c_int64 * MAX_RANK)(*array.shape)
        return Tensor(array.ctypes.data, array.nbytes, CODES.index(dtype), array.ndim, dims)

    def array(self, dtype: str) -> Array:
        """A copy of the contents."""
        assert self.element == CODES.index(dtype)
        flat = np.frombuffer(ctypes.string_at(self.data, self.bytes), numpy_dtype(dtype))
        return flat.reshape(self.dims[: self.rank])


class Failed(Exception):
    """A call's code and message."""


class Library:
    """A model in a shared library."""

    def __init__(self, path: Path, name: str, outputs: Sequence[ValueSpec], weights: Path | None = None) -> None:
        self.name, self.outputs = name, outputs
        self.library = ctypes.CDLL(str(path))
        self.function("error").restype = ctypes.c_char_p
        self.function("about").restype = ctypes.c_char_p
        self.model = ctypes.c_void_p()
        self.check(self.function("create")(ctypes.byref(self.model), None if weights is None else bytes(weights)))

    def function(self, verb: str) -> Any:
        return getattr(self.library, f"{self.name}_{verb}")

    def check(self, code: int) -> None:
        if code:
            raise Failed(code, self.function("error")().decode())

    def run(self, inputs: Sequence[tuple[Array, str]]) -> list[Array]:
        """Outputs that the library allocates."""
        given = (Tensor * max(len(inputs), 1))(*(Tensor.of(array, dtype) for array, dtype in inputs))
        outputs = (Tensor * len(self.outputs))()
        self.check(self.function("run_tensors")(self.model, given, outputs))
        arrays = [tensor.array(spec.dtype) for tensor, spec in zip(outputs, self.outputs, strict=True)]
        for tensor in outputs:
            self.function("free")(ctypes.byref(tensor))
        return arrays

    def close(self) -> None:
        self.function("destroy")(self.model)


def feeds_of(specs: Sequence[ValueSpec], feeds: Mapping[str, Array]) -> list[tuple[Array, str]]:
    return [(np.asarray(feeds[spec.name], order="C"), spec.dtype) for spec in specs]
