"""`burn.explain(y)`: which kernels compute a tensor, and what was fused into each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from burn.dialect.deferred import Deferred
from burn.dialect.locations import AGAIN
from burn.errors import TypeMismatch
from burn.lazy.engine import Entry, plan
from burn.runtime import Executable
from burn.runtime.artefact import KernelInfo
from burn.runtime.origins import line_of


@dataclass(frozen=True)
class Explanation:
    """The kernels of a program, in the order they run.

    seconds: what compiling took. uses: how often the program was asked for in this process. Both are 0 for a program that
    was not made for a lazy tensor. arena: bytes that intermediate results took in runs so far."""

    kernels: tuple[KernelInfo, ...]
    seconds: float = 0.0
    uses: int = 0
    arena: int = 0

    def __len__(self) -> int:
        return len(self.kernels)

    def __iter__(self) -> Iterator[KernelInfo]:
        return iter(self.kernels)

    def __str__(self) -> str:
        head = f"{len(self)} kernel{'s' * (len(self) != 1)}"
        if self.uses:
            times = "once" if self.uses == 1 else f"{self.uses} times"
            head += f", compiled in {self.seconds * 1e3:.0f} ms, used {times}"
        if self.arena:
            head += f", {self.arena / 1e6:.1f} MB of intermediate results"
        if again := sum(map(_is_again, self)):
            head += f", {again} compute{'s' * (again == 1)} again what was not kept"
        width = max((len(k.kind) for k in self.kernels), default=0)
        rows: list[str] = []
        for i, k in enumerate(self.kernels, 1):
            rows.append(f"  {i}  {k.kind:{width}}  {k.name}  ({_cost(k)})")
            if lines := [source for source in k.sources if line_of(source)]:
                rows.append(f"     {'':{width}}  from {', '.join(dict.fromkeys(lines))}")
        return "\n".join([head, *rows])

    __repr__ = __str__


def explain(subject: Any) -> Explanation:
    """The kernels of a lazy tensor (or of several, as one program), or of a result of `burn.compile`, `burn.load` or
    `burn.train.step`.

    It compiles the program of a recorded tensor without running it. Raises TypeMismatch for a tensor without a program, such as
    one made from an array."""
    subject = getattr(subject, "executable", subject)  # of compiled functions and torch modules
    if isinstance(subject, Executable):
        return Explanation(subject.artefact.kernels, arena=subject.arena_bytes)
    tensors = list(subject) if isinstance(subject, (tuple, list)) else [subject]
    values = [getattr(tensor, "_value", None) for tensor in tensors]
    deferred = [value for value in values if isinstance(value, Deferred)]
    if len(deferred) != len(tensors) or not tensors:
        raise TypeMismatch("explain takes lazy tensors and executables", [f"not {subject!r}"])
    pending = [value for value in deferred if value.array is None]
    if pending:
        entry, graph = plan(pending)
        return _of(entry, graph.located)
    entries = list({id(value.entry): value.entry for value in deferred if value.entry is not None}.values())
    if not entries:
        raise TypeMismatch("there is nothing to explain", ["these tensors were made from their elements"])
    if len(entries) > 1:
        raise TypeMismatch("these tensors were computed by several programs", ["explain them one by one"])
    return _of(entries[0])


def _cost(kernel: KernelInfo) -> str:
    moved = f"{kernel.bytes} bytes" + ", again" * _is_again(kernel)
    return moved if kernel.flops == "0" else f"{kernel.flops} operations, {moved}"


def _is_again(kernel: KernelInfo) -> bool:
    """True if a kernel recomputes a value (`burn.train.step(memory=...)`)."""
    return any(AGAIN in source for source in kernel.sources)


def _of(entry: Entry, located: Callable[[str], str] = str) -> Explanation:
    arena = entry.executable.arena_bytes
    kernels = [k._replace(sources=tuple(map(located, k.sources))) for k in entry.executable.artefact.kernels]
    return Explanation(tuple(kernels), entry.seconds, entry.uses, arena)
