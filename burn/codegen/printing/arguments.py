"""The arguments of a kernel, and their words at a launch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from burn.codegen.host.calls import Address
from burn.codegen.host.emit import Int
from burn.codegen.host.entry import EntryBuilder
from burn.dialect.dims import Dim
from burn.dialect.types import DTYPES
from burn.kernels.body import Buffer


@dataclass(frozen=True)
class Argument:
    """buffer: a buffer of the kernel, by number. workspace: memory of `size` elements for the buffer of that number, which is
    private to an iteration. failure: an int64 word, initially 0. size: a number."""

    kind: Literal["buffer", "workspace", "failure", "size"]
    number: int = 0
    size: Dim = 0


def words_of(
    entry: EntryBuilder,
    arguments: Sequence[Argument],
    buffers: Sequence[Buffer],
    addresses: Sequence[Address | None],
) -> tuple[list[Int], list[Int]]:
    """Prints the words of a launch: (a word for each argument, the memory among them that the launch allocates)."""
    words: list[Int] = []
    own: list[Int] = []
    for argument in arguments:
        match argument.kind:
            case "buffer":
                address = addresses[argument.number]
                assert address is not None
                words.append(entry.calls.reached(address))
            case "workspace":
                size = argument.size * DTYPES[buffers[argument.number].dtype].size
                own.append(entry.call("burn_rt_device_alloc", entry.sizes.dim(size)))
                words.append(own[-1])
            case "failure":
                words.append(entry.call("burn_rt_device_failure"))
            case "size":
                words.append(entry.sizes.dim(argument.size))
    return words, own
