"""Looking at values while a program runs: printing, callbacks, and the first NaN. All work in lazy and in compiled code, inside
of loops and branches, and in functions that are differentiated.

    @burn.jit
    def step(x):
        y = x / x.sum()
        burn.debug.print("mean {m:.3f}, first row {row}", m=y.mean(), row=y[0])
        return y

    with burn.debug.nans():
        loss = step(x)                    # RunError: names the op and the line that made the first NaN

`print` and `callback` are ops with an effect: they run once for each time the line would run in Python, in order, and no pass
removes them. The backward pass recomputes regions of loops and branches, and checkpointed functions, without them.
"""

from __future__ import annotations

import builtins
import string
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from burn.dialect import ops
from burn.dialect.debug import CONVERSION, FIELD, FIELD_END
from burn.dialect.dims import Expr
from burn.errors import Problem, TypeMismatch
from burn.runtime import debugging
from burn.tensors import Tensor, constant, trees
from burn.tensors.tracer import active

__all__ = ["bounds", "callback", "nans", "print"]

_CONVERSIONS = "efgEFG"


def print(text: str, /, *args: Any, **values: Any) -> None:
    """Prints a text with values, `burn.debug.print("loss {loss:.4f} at {i}", loss=loss, i=i)`, when the program gets there.

    The text has the form of `str.format`: {name}, {0} or {}, with a precision such as {x:.3f}, {x:e} or {x:.2g}. Values are
    tensors, arrays, numbers and sizes, which print as numpy prints them; texts and other objects are formatted while the function
    is traced. In Python it prints to `sys.stdout`; a program without Python prints to standard error.

    Raises TypeMismatch for a field that names no value, a value that no field names, and any other format."""
    if debugging.is_silent():
        return
    encoded, operands = _encoded(text, args, values)
    tensors = [constant(value) for value in operands]
    if _is_traced(tensors):
        ops.debug_print([t.value for t in tensors], text=encoded)
    else:
        builtins.print(debugging.formatted(encoded, [t.numpy() for t in tensors]), flush=True)


def callback(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Calls a Python function with the arguments when the program gets there: tensors become numpy arrays, also inside of
    containers. Its result is ignored. An exception ends the run and is raised by the call of the program.

    A program with a callback runs in this process alone: it is not cached on disk, and `save` and `burn-compile` refuse it."""
    if debugging.is_silent():
        return
    leaves, structure = trees.flatten((args, kwargs))
    tensors = [constant(leaf) for leaf in leaves]

    def call(*arrays: np.ndarray) -> None:
        given, named = trees.unflatten(structure, list(arrays))
        function(*given, **named)

    if _is_traced(tensors):
        plain = structure == trees.flatten((tuple(tensors), {}))[1]
        number = debugging.number_of(function if plain else call)
        ops.debug_call([t.value for t in tensors], function=number)
    else:
        call(*(np.array(t.numpy()) for t in tensors))


def nans(infs: bool = False) -> AbstractContextManager[None]:
    """Inside of `with burn.debug.nans():`, a run ends with a RunError at the first op that makes a NaN of operands without one.
    The error names the op and the line of your code (or the node of the model). infs: also for infinities.

    It holds for programs that are compiled inside: jitted functions and lazy tensors get programs of their own here, and what
    `burn.load` and `burn.compile` return keeps its checks. Every intermediate result is written to memory and read, so programs
    are several times slower, and autotuning does not time them. BURN_DEBUG_NANS=1 (or inf) in the environment does the same for
    a whole process."""
    return debugging.checking("inf" if infs else "nan")


def bounds() -> AbstractContextManager[None]:
    """Inside of `with burn.debug.bounds():`, custom ops in C (`burn.custom_op`) work on copies of their tensors with 4096 known
    bytes on both ends, and new results are filled with bytes of 255. After each call these bytes and the operands are compared.
    A run in which they changed ends with a RunError that names the op, the line of your code, and the number of the tensor, its
    operands first.

    It holds for all threads, without a new compilation, on CPUs and for the parts of a GPU's program that run on the host.
    BURN_DEBUG_BOUNDS=1 in the environment does the same for a process, and for a command or library that burn-compile makes."""
    return debugging.bounded()


def _is_traced(tensors: Sequence[Tensor]) -> bool:
    return active() is not None or any(t.is_traced for t in tensors)


def _encoded(text: str, args: tuple[Any, ...], values: dict[str, Any]) -> tuple[str, list[Any]]:
    """The text as the op has it, and the values of its fields. Other objects are formatted at once."""
    given: dict[str, Any] = {str(i): value for i, value in enumerate(args)} | values
    problems: list[str] = []
    used: dict[str, int] = {}
    operands: list[Any] = []
    parts: list[str] = []
    automatic = 0
    if set(text) & {FIELD, CONVERSION, FIELD_END}:
        problems.append("the text has control characters")
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError as error:
        raise TypeMismatch("burn.debug.print cannot read its text", [str(error)]) from None
    for literal, name, spec, conversion in fields:
        parts.append(literal)
        if name is None:
            continue
        if name == "":
            name, automatic = str(automatic), automatic + 1
        if name not in given:
            problems.append(f"{{{name}}} names no value; there are {', '.join(given) or 'none'}")
            continue
        value = given[name]
        used.setdefault(name, len(used))
        if not isinstance(value, (Tensor, np.ndarray, np.generic, Expr)):
            parts.append(format(str(value) if conversion == "s" else repr(value) if conversion else value, spec or ""))
            continue
        if conversion or (spec and not _is_conversion(spec)):
            problems.append(f"{{{name}{'!' + conversion if conversion else ''}:{spec}}} is no precision, such as .3f")
            continue
        parts.append(f"{FIELD}{len(operands)}{CONVERSION}{'%' + spec if spec else ''}{FIELD_END}")
        operands.append(value)
    problems += [f"no field names the value '{name}'" for name in given if name not in used]
    if problems:
        raise TypeMismatch("burn.debug.print cannot read its text", [Problem(p) for p in problems])
    return "".join(parts), operands


def _is_conversion(spec: str) -> bool:
    """True for `.3f`, `f`, `.2e` and the like, which Python and C write alike."""
    digits = spec[1:-1] if spec.startswith(".") else spec[:-1]
    return spec[-1] in _CONVERSIONS and (digits.isdigit() and len(digits) <= 2 if spec.startswith(".") else not digits)
