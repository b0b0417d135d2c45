"""A printed kernel: its text, its arguments, and its number of programs. See `KernelPrinter` in kernels.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from burn.codegen.printing.arguments import Argument
from burn.codegen.printing.code import Unprintable
from burn.codegen.triton.code import Code
from burn.codegen.triton.functions import TYPES
from burn.codegen.triton.heuristics.device import STAGES, WARPS
from burn.codegen.triton.scalars import ScalarPrinter
from burn.dialect.dims import Dim, symbol
from burn.kernels.body import Buffer, Kernel
from burn.kernels.parameters import argument_names

NARROW = (1 << 31) - (1 << 16)
"""The bound of sizes with 32-bit indices: a block may extend past the end."""


@dataclass(frozen=True)
class Printed:
    """A function and its launch: arguments in order, then constants by name, and the number of programs. choice: the key of the
    choice that it depends on, if any. scratch: bytes of memory per program; registers: of a thread, if the kernel sets
    them. early: it starts before the kernel before it ends (`early.py`). is_certain: no address depends on data. shared: bytes of
    shared memory behind Triton's own (`staging.py`)."""

    name: str
    text: str
    arguments: tuple[Argument, ...]
    constants: Mapping[str, int]
    programs: Dim
    warps: int
    stages: int
    choice: str = ""
    scratch: int = 0
    registers: int = 0
    early: bool = False
    is_certain: bool = False
    shared: int = 0

    @property
    def may_fail(self) -> bool:
        return any(argument.kind == "failure" for argument in self.arguments)

    def guarded(self) -> Printed:
        """The same, except that it writes nothing if a previous kernel has failed. A failed kernel may have left indices that are
        out of range, so nothing is loaded through data either. Other loads do not wait for that of the failure."""
        head, body = self.text.split('"""\n', 1)
        arguments = self.arguments
        if not self.may_fail:
            head = head.replace(f"def {self.name}(", f"def {self.name}(failure, ", 1)
            arguments = (Argument("failure"), *arguments)
        language = "gl" if self.text.startswith("@gluon.jit") else "tl"
        test = f"    if {language}.load(failure) != 0:\n        return\n"
        if not self.is_certain or "tl.store(" not in body:
            return replace(self, text=f'{head}"""\n{test}{body}', arguments=arguments)
        lines = body.split("\n")
        at = _first_store(lines)
        body = "\n".join(
            ["    failed = tl.load(failure)", *lines[:at], "    if failed != 0:", "        return", *lines[at:]]
        )
        return replace(self, text=f'{head}"""\n{body}', arguments=arguments)


def _first_store(lines: Sequence[str]) -> int:
    """The line of the first statement of a function that stores; it may be a loop."""
    at = next(number for number, line in enumerate(lines) if "tl.store(" in line)
    return max(number for number in range(at + 1) if lines[number].startswith("    ") and lines[number][4] != " ")


def opened(buffers: Sequence[Buffer], sites: list[str], make: type[ScalarPrinter] = ScalarPrinter) -> ScalarPrinter:
    """A printer of that class. Raises CompileError for buffers of elements that Triton has no type for."""
    for buffer in buffers:
        if buffer.dtype not in TYPES:
            raise Unprintable(f"Triton kernels do not hold elements of type {buffer.dtype}")
    return make(Code(), buffers, sites)


def given(
    kernel: Kernel, values: Mapping[str, Dim], iterations: Dim = 0, may_fail: bool = False
) -> tuple[list[str], list[Argument]]:
    """The arguments of a kernel and their names: buffers, then sizes. values, iterations: see `closed`."""
    names, arguments = [], []
    for number, buffer in enumerate(kernel.buffers):
        if buffer.access != "scratch":
            names.append(f"b{number}")
            arguments.append(Argument("buffer", number))
        else:
            names.append(f"workspace{number}")
            arguments.append(Argument("workspace", number, iterations * buffer.elements))
    if may_fail:
        names.append("failure")
        arguments.append(Argument("failure"))
    for name in argument_names(kernel):
        names.append(name)
        arguments.append(Argument("size", 0, values[name] if name in values else symbol(name)))
    return names, arguments


def closed(
    printer: ScalarPrinter,
    kernel: Kernel,
    about: str,
    constants: Mapping[str, int],
    programs: Dim,
    values: Mapping[str, Dim],
    iterations: Dim,
    warps: int = WARPS,
    stages: int = STAGES,
    scratch: int = 0,
) -> Printed:
    """The function with a printed body. values: the values of sizes; iterations: of the parallel loops."""
    names, arguments = given(kernel, values, iterations, printer.fetches)
    names += [f"{name}: tl.constexpr" for name in ("INT", *constants)]
    head = ["@triton.jit", f"def KERNEL({', '.join(names)}):", f'    """{about}"""']
    text = "\n".join([*head, *printer.code.lines])
    return Printed("KERNEL", text, tuple(arguments), constants, programs, warps, stages, scratch=scratch)
