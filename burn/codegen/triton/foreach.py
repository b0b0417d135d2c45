"""Independent loops over different tensors in one launch, as PyTorch's multi-tensor apply: `together`.

Loops whose texts are equal differ in their buffers and sizes alone. Sizes become numbers of the text, and these have 32 bits: a
larger tensor has a launch of its own. Each runs as many programs as in a launch of its own. A
program finds its loop by bisection of program numbers, and then selects the loop's arguments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from burn.codegen.printing.arguments import Argument
from burn.codegen.triton.printed import NARROW, Printed
from burn.dialect.dims import Dim, product
from burn.kernels.body import Buffer, Kernel, LoopKernel
from burn.kernels.builders.builder import Call

MOST_ARGUMENTS = 480
"""Of a launch: CUDA passes up to 4,096 bytes, and Triton and `Printed.guarded` add some of their own."""

FEW_ARGUMENTS = 48
"""Of a launch with many programs: a thread loads all pointers before it selects its own. 250 pointers took 247 registers, which
halved the speed of AdamW's updates on an H100."""

FEW_PROGRAMS = 256
"""A GPU runs so few programs at once, however many registers they take."""

PROGRAM = "tl.program_id(0)"


@dataclass(frozen=True)
class Together:
    """A launch of several loops: its function, and its buffers with their bindings."""

    printed: Printed
    buffers: tuple[Buffer, ...]
    bindings: tuple[tuple[str, int] | None, ...]


def together(calls: Sequence[Call], printed: Sequence[Printed]) -> list[Together]:
    """The launches of loops. printed: the function of each, whose texts are named "KERNEL"."""
    alike: dict[object, list[int]] = {}
    for number, each in enumerate(printed):
        buffers = calls[number].kernel.buffers
        dtypes = tuple(buffers[a.number].dtype for a in each.arguments if a.kind == "buffer")
        aligned = tuple(isinstance(a.size, int) and a.size % 16 == 0 for a in each.arguments)  # for wide loads
        key = each.text, tuple(each.constants.items()), each.warps, each.stages, dtypes, aligned
        alike.setdefault(key if _is_joined(calls[number].kernel, each) else number, []).append(number)
    made = []
    for numbers in alike.values():
        made += [_launch([calls[n] for n in some], [printed[n] for n in some]) for some in _parts(numbers, printed)]
    return made


def _parts(numbers: Sequence[int], printed: Sequence[Printed]) -> Iterator[list[int]]:
    """The loops of each launch, small ones first. numbers: of loops that are alike."""
    if len(numbers) == 1:
        yield [*numbers]
        return
    part: list[int] = []
    programs = 0
    for number in sorted(numbers, key=lambda n: _number(printed[n].programs)):
        programs += _number(printed[number].programs)
        arguments = (len(part) + 1) * len(printed[number].arguments)
        if part and arguments > (MOST_ARGUMENTS if programs <= FEW_PROGRAMS else FEW_ARGUMENTS):
            yield part
            part, programs = [], _number(printed[number].programs)
        part.append(number)
    yield part


def _is_joined(kernel: Kernel, printed: Printed) -> bool:
    """True if sizes are numbers of 32 bits, which become part of the text."""
    assert isinstance(kernel, LoopKernel)
    elements = product([v.extent for v in kernel.parallel])
    sizes = (elements, printed.programs, *(a.size for a in printed.arguments if a.kind == "size"))
    known = all(isinstance(size, int) and size < NARROW for size in sizes)
    return known and all(a.kind in ("buffer", "size") for a in printed.arguments)


def _launch(calls: Sequence[Call], printed: Sequence[Printed]) -> Together:
    first = printed[0]
    if len(printed) == 1:
        return Together(first, calls[0].kernel.buffers, calls[0].bindings)
    buffers: dict[tuple[str, int] | None, Buffer] = {}
    for call in calls:
        buffers |= zip(call.bindings, call.kernel.buffers, strict=True)
    position = {binding: n for n, binding in enumerate(buffers)}
    rows = [
        [replace(a, number=position[call.bindings[a.number]]) if a.kind == "buffer" else a for a in each.arguments]
        for call, each in zip(calls, printed, strict=True)
    ]
    head, body = first.text.split('"""\n', 1)
    names = head[head.index("(") + 1 : head.index("):")].split(", ")
    fixed = names[len(first.arguments) :]
    starts, total = [], 0
    for each in printed:
        starts.append(total)
        total += _number(each.programs)
    arguments, given, selected = _arguments(names, rows)
    lines = [
        f"def KERNEL({', '.join([*given, *fixed])}):",
        f'    """The blocks of {len(printed)} loops over different tensors."""',
        f"    program = {PROGRAM}",
        *_select(0, len(printed), starts, selected, "    "),
    ]
    text = "\n".join(["@triton.jit", *lines, body.replace(PROGRAM, "(program - first)")])
    made = replace(first, text=text, arguments=tuple(arguments), programs=total)
    return Together(made, tuple(buffers.values()), tuple(buffers))


def _arguments(
    names: Sequence[str], rows: Sequence[Sequence[Argument]]
) -> tuple[list[Argument], list[str], list[list[tuple[str, str]]]]:
    """The arguments of a launch, their names, and for each loop the (name, value) pairs that differ between loops. rows: the
    arguments of each loop."""
    arguments: list[Argument] = []
    given: list[str] = []
    selected: list[list[tuple[str, str]]] = [[] for _ in rows]
    known: dict[Argument, str] = {}
    for column, name in enumerate(names[: len(rows[0])]):
        values = [row[column] for row in rows]
        if len(set(values)) == 1 and values[0].kind == "buffer":
            arguments.append(values[0])
            given.append(name)
            continue
        for value, pairs in zip(values, selected, strict=True):
            if value.kind == "size":
                pairs.append((name, str(value.size)))
                continue
            if value not in known:
                known[value] = f"p{len(known)}"
                arguments.append(value)
                given.append(known[value])
            pairs.append((name, known[value]))
    return arguments, given, selected


def _select(
    low: int, high: int, starts: Sequence[int], selected: Sequence[Sequence[tuple[str, str]]], indent: str
) -> list[str]:
    """Lines that bind the arguments of one of the loops low <= n < high, and `first`, its first program."""
    if high - low == 1:
        pairs = [("first", str(starts[low])), *selected[low]]
        return [f"{indent}{name} = {value}" for name, value in pairs]
    middle = (low + high) // 2
    return [
        f"{indent}if program < {starts[middle]}:",
        *_select(low, middle, starts, selected, indent + "    "),
        f"{indent}else:",
        *_select(middle, high, starts, selected, indent + "    "),
    ]


def _number(size: Dim) -> int:
    assert isinstance(size, int)
    return size
