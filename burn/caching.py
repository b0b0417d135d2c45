"""Programs compiled once on a machine: an artefact from the cache on disk, or from the compiler, which is imported only then.

`artefact_of` and `executable_of` are for what can be named before there is a program, such as a file; `executable` for a program
that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from burn.options import Options
from burn.runtime import Artefact, Cache, Executable, registry
from burn.runtime.compilations import logged

if TYPE_CHECKING:
    from burn.dialect.program import Program
    from burn.runtime.constants_file import ConstantsFile


def artefact_of(
    identity: Sequence[str] | None,
    make: Callable[[], Program],
    options: Options,
    is_current: Callable[[], bool] = lambda: True,
) -> Artefact:
    """The artefact of the program that `make` gives, from the cache if it is there.

    identity: everything that the program depends on; `Options.identity` adds all that compiling depends on. None for a program
    that is not cached. is_current: called after `make`; false if `make` may have read another program than the identity is of, as
    a file was replaced meanwhile. Then the artefact is not cached. Raises what `make` and the compiler raise, and DeviceError for
    a GPU that is not there."""
    store = None if identity is None or not options.cache else Cache.from_environment()
    if store is None or identity is None or not store.size:
        return _compile(make, options)
    key = "\n".join([*identity, *options.identity()]).encode()
    if (found := logged(lambda: store.get(key), _kernels, cached=True)) is not None:
        return found
    file = store.constants_file(key)
    made = _compile(make, options, file)
    if made.is_portable:
        store.put_later(key, replace(made, made_by=options.made_by()), is_current, file)
    elif file is not None:
        file.close()
    return made


def executable_of(
    identity: Sequence[str] | None,
    make: Callable[[], Program],
    options: Options,
    is_current: Callable[[], bool] = lambda: True,
    given_up: Sequence[str] = (),
) -> Executable:
    """The artefact's executable, see `artefact_of`. A large artefact is written to the cache meanwhile."""
    return Executable(artefact_of(identity, make, options, is_current), given_up, options.device)


def is_cached(options: Options) -> bool:
    """True if programs with these options are read from the cache on disk, and written there."""
    return options.cache and Cache.from_environment().size > 0


def executable(program: Program, options: Options | None = None) -> Executable:
    """The program, from the cache on disk if it is there, else compiled: `burn.compiler.executable` always compiles."""
    options = options or Options()
    renewed = program.renews.values()  # whether a call gives these up is said by the call
    given_up = [program.input_names[i] for i in program.given_up if i not in renewed]
    identity = _identity(program) if is_cached(options) else None
    return executable_of(identity, lambda: program, options, given_up=given_up)


def _identity(program: Program) -> list[str] | None:
    """All that a program is: its text, in which ops have the names of their nodes, and its constants. None for a program that
    calls functions of this process."""
    from burn.dialect.text import to_text

    text = to_text(program, locations=True)
    if '"burn.debug_call"' in text:
        return None
    constants = [f"{key} {weight.digest()}" for key, weight in sorted(program.weights.items())]
    size_hints = [f"size hints {sorted(program.size_hints.items())}"] if program.size_hints else []
    return [text, f"renews {sorted(program.renews.items())}", *size_hints, *constants]


def _compile(make: Callable[[], Program], options: Options, file: ConstantsFile | None = None) -> Artefact:
    """The artefact of the program that `make` gives. Constants that its compilation makes go to the file."""

    def compiled() -> Artefact:
        program = make()
        program.weights.file = file
        try:
            return compile_program(program, options)
        finally:
            program.weights.file = None

    registry.entry(options.device.kind).begin()
    from burn.compiler import compile_program

    return logged(compiled, _kernels)


def _kernels(artefact: Artefact | None) -> int | None:
    return None if artefact is None else len(artefact.kernels)
