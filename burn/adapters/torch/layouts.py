"""Where outputs lie in memory, as far as torch asks. Enter at `wanted` and `Layout`.

burn's outputs are contiguous. AOTAutograd makes an output that is a view of an input, or of another output, anew from that
tensor: of what the graph gives in its place it reads sizes, strides and offset alone. Such outputs are not computed. A tensor
that views are made of must lie in memory as torch thinks it does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch._functorch._aot_autograd.schemas import OutputType, ViewAndMutationMeta

from burn.importers.torch.sizes import expression_of

PLACE, LIES = "place", "lies"
"""What torch wants of an output: only where it would lie, or numbers that lie there."""
OF_INPUTS = (OutputType.alias_of_input, OutputType.is_input)
OF_OUTPUTS = (
    OutputType.alias_of_intermediate,
    OutputType.alias_of_intermediate_save_as_output,
    OutputType.alias_of_intermediate_base_is_user_output,
)


def wanted(metadata: ViewAndMutationMeta) -> dict[int, str]:
    """Output of a forward graph -> what torch wants of it; nothing for those that are numbers and no more."""
    found: dict[int, str] = {}
    mutated = metadata.mutated_inp_runtime_indices
    tokens = len(metadata.tokens)
    for i, index in enumerate(mutated, tokens):
        info = metadata.input_info[index]
        if info.mutates_metadata:
            found[i] = LIES if info.mutates_data or info.mutates_storage_metadata else PLACE
    first, count = tokens + len(mutated), len(metadata.output_info)
    for i, info in enumerate(metadata.output_info):
        if info.output_type in OF_INPUTS or info.output_type in OF_OUTPUTS:
            found[first + i] = PLACE
    for info in metadata.output_info:
        if info.output_type in OF_OUTPUTS and info.base_idx is not None:
            among = info.output_type is not OutputType.alias_of_intermediate_base_is_user_output
            found.setdefault(first + info.base_idx + among * count, LIES)
    return found


class Layout:
    """Sizes, strides and offset of a tensor, which may depend on the sizes of a call."""

    def __init__(self, meta: torch.Tensor, placeholders: Sequence[fx.Node]) -> None:
        """Raises KeyError, with the symbol, for what depends on more than the sizes of a graph's inputs."""
        known = _sources(placeholders)
        self.dtype = meta.dtype
        self._rank = meta.dim()
        self._numbers = tuple(map(expression_of, (*meta.shape, *meta.stride(), meta.storage_offset())))
        symbols = sorted({s for e in self._numbers for s in e.free_symbols}, key=str)
        self._symbols = {symbol: known[symbol] for symbol in symbols}
        self._seen: dict[tuple[int, ...], tuple[int, ...]] = {}

    def at(self, values: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Sizes, strides and offset where a graph's inputs are these."""
        key = tuple(int(values[i] if axis is None else values[i].shape[axis]) for i, axis in self._symbols.values())
        if key not in self._seen:
            numbers = dict(zip(self._symbols, map(sympy.Integer, key), strict=True))
            self._seen[key] = tuple(int(e.xreplace(numbers)) for e in self._numbers)
        found = self._seen[key]
        return found[: self._rank], found[self._rank : -1], found[-1]

    def empty(self, values: Sequence[Any]) -> torch.Tensor:
        """A tensor that lies so, and says nothing else."""
        size, stride, offset = self.at(values)
        last = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        return torch.empty(offset + last, dtype=self.dtype).as_strided(size, stride, offset)

    def holding(self, tensor: torch.Tensor, values: Sequence[Any]) -> torch.Tensor:
        """The tensor's numbers where torch takes them to be."""
        size, stride, offset = self.at(values)
        if not offset and stride == tensor.stride() and size == tensor.shape:
            return tensor
        made = self.empty(values)
        once = tuple(slice(0, 1) if step == 0 else slice(None) for step in stride)  # what is expanded is there once
        made[once].copy_(tensor[once])
        return made


def _sources(placeholders: Sequence[fx.Node]) -> Mapping[Any, tuple[int, int | None]]:
    """Symbol -> the input that it is, or the input and the axis whose size it is."""
    found: dict[Any, tuple[int, int | None]] = {}
    for i, node in enumerate(placeholders):
        value = node.meta["val"]
        if isinstance(value, torch.SymInt):
            found.setdefault(expression_of(value), (i, None))
        for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            found.setdefault(expression_of(size), (i, axis))
    return found
