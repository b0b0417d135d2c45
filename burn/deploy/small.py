"""Small libraries (`--optimize size`): their runtime is a part of the model's own C file (native/small).

There the model's tables are constants in the same translation unit, so the compiler removes unused code and tables, and folds
fixed sizes. The runtime functions have the model's name as a prefix, so a program can link several small libraries, and
others.

Programs that call functions outside of native/small (strings, lists, library functions) use the normal runtime.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from burn.codegen.cpu.target import Target
from burn.deploy import native_runtime
from burn.deploy import weights as stored
from burn.deploy.tables import Own, Version
from burn.runtime import _native
from burn.runtime.artefact import Artefact

FOLDER = native_runtime.OWN / "small"

HALF_SOURCE = native_runtime.SHARED / "half.c"
"""Functions that a compiler may call implicitly. The linker drops unused ones."""

_OFFERED = """input input_dim constant output plan alloc free grow mark release scratch copy read write launch steps enter leave
    fail kernel_fail status"""
OFFERED = frozenset(f"burn_rt_{name}" for name in _OFFERED.split())
"""The runtime functions of native/small."""

ALLOCATING = frozenset(("burn_rt_alloc", "burn_rt_grow"))
"""Functions that leave blocks to be freed at the end of a run."""

MOST_AXES = 16
"""BURN_TENSOR_RANK."""

_CALLED = re.compile(r"burn_rt_(\w+)")


def runs(artefact: Artefact, target: Target | None, called: frozenset[str]) -> bool:
    """True if a program that calls these functions is compiled for size and can use the small runtime, which checks only
    the features of x86-64."""
    if target is None or not target.compact or (target.features and target.architecture != "x86_64"):
        return False
    signature = artefact.signature
    values = (*signature.inputs, *signature.outputs)
    is_plain = all(v.dtype != "string" and not v.containers and len(v.dims) <= MOST_AXES for v in values)
    is_plain = is_plain and all(constant.dtype != "string" for constant in artefact.constants)
    return is_plain and {name for name in called if name.startswith(("burn_rt_", "burn_lib_"))} <= OFFERED


def own(version: Version, called: frozenset[str]) -> Own:
    """The small runtime's part of the model's C file, and its tables.

    The tables hold offsets of constants, in units of their alignment, and for static sizes the offsets of buffers in the arena.
    called: the functions that the program calls."""
    artefact = version.artefact
    features = artefact.target.features
    needs = [f'#define BURN_NEEDS "{",".join(features)}"'] if features else []
    tables = [_table("uint32_t", "offsets", [entry.offset // stored.ALIGNMENT for entry in version.entries])]
    if all(size.isdecimal() for size in artefact.buffers):
        offsets, arena = _native.plan(list(artefact.live_ranges), list(map(int, artefact.buffers)))
        tables += [f"#define BURN_ARENA INT64_C({arena})", _table("int64_t", "planned", offsets)]
    if all(isinstance(dim, int) for spec in artefact.signature.outputs for dim in spec.dims):
        tables.append("#define BURN_FIXED_OUTPUTS")
    if called & ALLOCATING:
        tables.append("#define BURN_BLOCKS")
    return Own((*needs, '#include "small.h"'), (*tables, '#include "small.c"'))


def _table(type_: str, name: str, numbers: Sequence[int]) -> str:
    return f"static const {type_} {name}[] = {{{', '.join(map(str, numbers)) or '0'}}};"


def flags(name: str) -> list[str]:
    """For the model's C file: where native/small is, and what its functions are called."""
    return [f"-I{FOLDER}", *(f"-D{function}={renamed(function, name)}" for function in sorted(OFFERED))]


def renamed(text: str, name: str) -> str:
    """Renames the runtime functions in compiled code to the model's names."""
    return _CALLED.sub(rf"{name}_rt_\1", text)
