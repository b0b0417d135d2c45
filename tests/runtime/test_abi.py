"""abi.py says what the C headers say, and symbols.c offers it."""

from __future__ import annotations

import re
from pathlib import Path

from burn.runtime import _native
from burn.runtime.abi import FUNCTIONS, MAX_RANK, MESSAGES, Status

NATIVE = Path(__file__).parents[2] / "burn" / "runtime" / "native"
TYPES = {"int64_t": "i64", "int32_t": "i32", "void": "", "burn_kernel": "ptr", "burn_kernels": "ptr"}


def code(name: str) -> str:
    """A header without its comments."""
    return re.sub(r"/\*.*?\*/", "", (NATIVE / name).read_text(), flags=re.DOTALL)


def type_of(text: str) -> str:
    """The LLVM type of a C type, or of a parameter with its name."""
    return "ptr" if "*" in text else TYPES[text.replace("const ", "").split()[0]]


def declared() -> dict[str, tuple[tuple[str, ...], str]]:
    found = {}
    pattern = r"^((?:const )?\w+ \**)(burn_\w+)\(([^)]*)\);"
    for header in ("burn_rt.h", "lib.h"):
        for result, name, parameters in re.findall(pattern, code(header), flags=re.MULTILINE):
            found[name] = tuple(type_of(p.strip()) for p in parameters.split(",")), type_of(result)
    return found


def test_functions() -> None:
    assert {name: (f.arguments, f.result) for name, f in FUNCTIONS.items()} == declared()
    assert FUNCTIONS.keys() <= _native.symbols().keys()


def test_what_tells_of_failure_fits_the_result() -> None:
    fits = {"null": "ptr", "negative": "i64", "status": "i32"}
    assert all(fits[f.fails] == f.result for f in FUNCTIONS.values() if f.fails)


def test_statuses_have_messages() -> None:
    statuses = {name: int(number) for name, number in re.findall(r"BURN_(\w+) = (\d+)", code("burn_rt.h"))}
    assert statuses == {status.name: status.value for status in Status}
    assert MESSAGES.keys() == set(Status) - {Status.OK}


def test_limits() -> None:
    assert f"BURN_MAX_RANK = {MAX_RANK}" in code("runtime.h")
