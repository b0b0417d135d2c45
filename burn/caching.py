"""Programs compiled once on a machine: an artefact from the cache on disk, or from the compiler, which is imported only then.

`artefact_of` is for what can be named before there is a program, such as a file; `executable` for a program that is there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from burn.codegen.tuning.modes import mode_of
from burn.errors import TypeMismatch
from burn.runtime import Artefact, Cache, Executable, _native, host
from burn.runtime.device import CPU, Device

if TYPE_CHECKING:
    from burn.dialect.program import Program

FULL = "float32"
PRECISIONS = {"fp32": FULL, "bf16": "bfloat16", "fp16": "float16"}
"""What products are computed in, by short names; the long ones do as well."""

Options = dict[str, Any]
"""Of a compilation, by name."""

_ABOVE = frozenset(("bench", "cli", "exporters"))
"""Folders that no compiled program depends on."""


def artefact_of(
    identity: Sequence[str] | None,
    make: Callable[[], Program],
    *,
    passes: str | None = None,
    target: str | None = None,
    device: Device = CPU,
    precision: str = FULL,
    autotune: str | None = None,
    exact: bool = False,
    budget: str = "",
) -> Artefact:
    """The artefact of the program that `make` gives, compiled for this machine or for the CPU `target`, and for a device.

    identity: what the program depends on, entirely; the options, the CPU and burn itself are added. None for a program
    that is not kept. precision, autotune, exact: see `burn.load`; budget: options of the pass `recompute`. Raises what `make` and
    the compiler raise, and TypeMismatch for a precision or an autotuning that there is not."""
    precision = precision_of(precision)
    mode = mode_of(autotune)
    store = None if identity is None else Cache.from_environment()
    options: Options = {"passes": passes, "target": target, "device": device, "precision": precision}
    options |= {"autotune": autotune, "exact": exact, "budget": budget}
    if store is None or identity is None:
        return _compile(make, options)
    processor = (target or " ".join(sorted(host.features()))) + " exact" * exact
    card = f"{device.kind} {device.facts()['architecture']}" if device.is_card else ""
    if not mode.is_off:
        tuned_on = device.facts()["name"] if device.is_card else f"{host.processor()} {_native.num_threads()} threads"
        card += f" {tuned_on} {mode.key}"
    key = "\n".join(
        [*identity, processor, card, precision, passes or "", budget, _native.__version__, _sources()]
    ).encode()
    artefact = store.get(key)
    if artefact is None:
        artefact = _compile(make, options)
        store.put(key, artefact)
    return artefact


def executable(
    program: Program,
    *,
    target: str | None = None,
    cache: bool = True,
    device: Device = CPU,
    precision: str = FULL,
    autotune: str | None = None,
    exact: bool = False,
    budget: str = "",
) -> Executable:
    """The program compiled, or as it was compiled before."""
    renewed = program.renews.values()  # whether a call gives these up is said by the call
    given_up = [program.input_names[i] for i in program.given_up if i not in renewed]
    options: Options = {"target": target, "device": device, "precision": precision}
    options |= {"autotune": autotune, "exact": exact, "budget": budget}
    artefact = artefact_of(_identity(program) if cache else None, lambda: program, **options)
    return Executable(artefact, given_up, device)


def precision_of(name: str) -> str:
    """The element type that a precision is called. Raises TypeMismatch for one that there is not."""
    found = PRECISIONS.get(name, name)
    if found not in PRECISIONS.values():
        raise TypeMismatch(f"there is no precision {name!r}", [f"there are {', '.join(PRECISIONS)}"])
    return found


def _identity(program: Program) -> list[str]:
    """All that a program is: its text, in which ops have the names of their nodes, and its constants."""
    from burn.dialect.text import to_text

    constants = [f"{key} {weight.digest()}" for key, weight in sorted(program.weights.items())]
    usual = [f"usual {sorted(program.usual.items())}"] if program.usual else []
    return [to_text(program, locations=True), f"renews {sorted(program.renews.items())}", *usual, *constants]


def _compile(make: Callable[[], Program], options: Options) -> Artefact:
    from burn.compiler import compile_program

    return compile_program(make(), **options)


@functools.cache
def _sources() -> str:
    """What changes when the compiler does: in a checkout its files are newer than the version says."""
    root = Path(__file__).parent
    folders = [folder for folder in root.iterdir() if folder.is_dir() and folder.name not in _ABOVE]
    files = [*root.glob("*.py"), *(file for folder in folders for file in folder.rglob("*.py"))]
    stats = [file.stat() for file in files]
    return f"{len(stats)} {max(s.st_mtime_ns for s in stats)} {sum(s.st_size for s in stats)}"
