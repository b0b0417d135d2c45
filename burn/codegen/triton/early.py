"""Kernels that start before the kernel before them ends (programmatic dependent launch): `started_early`.

Such a kernel lets the next one start at once, and waits until the one before it has ended and its results can be read. Between
these two it may read or prefetch constants. Every program of a kernel waits before it ends. So if a kernel has ended, all before
it have.
Source: CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

from dataclasses import replace

from burn.codegen.triton.printed import Printed


def _instruction(name: str) -> str:
    return f'tl.inline_asm_elementwise("griddepcontrol.{name}; // $0", "=r", [], dtype=tl.int32, is_pure=False, pack=1)'


DEPENDENTS = _instruction("launch_dependents")
"""The next kernel may start, as soon as all programs of this one have come here or ended."""

WAIT = _instruction("wait")
"""Waits for the kernel before."""


def prefetch(pointer: str, bytes_: int) -> str:
    """Prefetches bytes to the L2 cache, from one thread. Address and number are multiples of 16. It takes no registers, and loads
    of another kernel do not wait for it."""
    text = (
        "{ .reg .pred p; .reg .b32 t; mov.u32 t, %tid.x; setp.eq.u32 p, t, 0; "
        f"@p cp.async.bulk.prefetch.L2.global [$1], {bytes_}; mov.b32 $0, 0; }}"
    )
    return (
        f'tl.inline_asm_elementwise("{text}", "=r,l", [({pointer}).to(tl.int64)], '
        "dtype=tl.int32, is_pure=False, pack=1)"
    )


def started_early(printed: Printed) -> Printed:
    """The same, except that it starts early and waits at its beginning. Kernels in Gluon stay as they are: those that start early
    are printed so."""
    if printed.early or printed.text.startswith("@gluon.jit"):
        return printed
    head, body = printed.text.split('"""\n', 1)
    return replace(printed, text=f'{head}"""\n    {DEPENDENTS}\n    {WAIT}\n{body}', early=True)
