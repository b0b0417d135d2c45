"""Memory layout of outputs: sizes, strides, offsets, and aliasing. Start at `requirements`, `shared` and `Layout`.

burn computes contiguous arrays. torch specifies strides for a graph's outputs. Outputs that are views of one tensor share its
storage, so writes through one are visible in the others. AOTAutograd recreates an output that is a view of an input, or of
another output with gradients, from that tensor. From the graph it then reads only sizes, strides and offset,
so such outputs are not computed. This module makes all other views of one tensor, over its memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import sympy
import torch
from torch import fx
from torch._functorch._aot_autograd.schemas import OutputType, ViewAndMutationMeta

from burn.importers.torch.sizes import expression_of

LAYOUT_ONLY, ELEMENTS = "layout only", "elements"
"""torch's requirement for an output: only the layout, or elements with that layout."""
OF_INPUTS = (OutputType.alias_of_input, OutputType.is_input)
OF_OUTPUTS = (
    OutputType.alias_of_intermediate,
    OutputType.alias_of_intermediate_save_as_output,
    OutputType.alias_of_intermediate_base_is_user_output,
)
USUAL = 97
"""A size for every symbol, by which strides are put in order."""


def requirements(metadata: ViewAndMutationMeta) -> dict[int, str]:
    """Output of a forward graph -> torch's requirement. Outputs without a requirement are only elements: new values of inputs,
    which torch copies, and saved tensors of the backward pass."""
    found: dict[int, str] = {}
    mutated = metadata.mutated_inp_runtime_indices
    tokens = len(metadata.tokens)
    for i, index in enumerate(mutated, tokens):
        info = metadata.input_info[index]
        if info.mutates_metadata:
            found[i] = ELEMENTS if info.mutates_data or info.mutates_storage_metadata else LAYOUT_ONLY
    first, count = tokens + len(mutated), len(metadata.output_info)
    for i, info in enumerate(metadata.output_info):
        found[first + i] = LAYOUT_ONLY if info.output_type in OF_INPUTS or info.output_type in OF_OUTPUTS else ELEMENTS
    for info in metadata.output_info:
        if info.output_type in OF_OUTPUTS and info.base_idx is not None:
            among = info.output_type is not OutputType.alias_of_intermediate_base_is_user_output
            found[first + info.base_idx + among * count] = ELEMENTS
    return found


def renewed(metadata: ViewAndMutationMeta) -> dict[int, int]:
    """Output of a forward graph -> the input whose new value it is."""
    return dict(enumerate(metadata.mutated_inp_runtime_indices, len(metadata.tokens)))


def outputs_of(graph: fx.GraphModule) -> list[Any]:
    """A graph's results, in order."""
    output = next(n for n in reversed(graph.graph.nodes) if n.op == "output")
    return list(output.args[0])


# ---- shared memory ------------------------------------------------------------------------------------------------------
def shared(outputs: Mapping[int, fx.Node]) -> dict[int, fx.Node]:
    """Output -> the call whose result is the memory that it shares with another output, or the input that it is a view of;
    nothing for those that share none."""
    every = {i: storage_of(node.meta.get("val")) for i, node in outputs.items()}
    storages = {i: s for i, s in every.items() if s is not None}
    counts = Counter(storages.values())
    found = {i: _owner(outputs[i], s) for i, s in storages.items()}
    return {i: owner for i, owner in found.items() if owner.op == "placeholder" or counts[storages[i]] > 1}


def storage_of(value: Any) -> int | None:
    """The identity of a tensor's memory. None if torch keeps a sign or a conjugation as a flag, which is not in memory."""
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or value.is_conj() or value.is_neg():
        return None
    return value.untyped_storage()._cdata


def _owner(node: fx.Node, storage: int) -> fx.Node:
    """The first call of a chain of views."""
    source = _viewed(node, storage)
    return node if source is None else _owner(source, storage)


def _viewed(node: fx.Node, storage: int) -> fx.Node | None:
    """The operand that a call's result is a view of."""
    for given in node.all_input_nodes:
        value = given.meta.get("val")
        several = isinstance(value, (list, tuple))
        source = _viewed(given, storage) if several else given if storage_of(value) == storage else None
        if source is not None:
            return source
    return None


# ---- strides ------------------------------------------------------------------------------------------------------------
def memory_order(meta: torch.Tensor, anywhere: bool = False) -> tuple[int, ...] | None:
    """The axes as they lie in memory, the outermost first; None where the tensor's elements do not fill its memory.
    anywhere: from any offset of the memory on."""
    sizes, strides = ([_plain(n) for n in numbers] for numbers in (meta.shape, meta.stride()))
    usual = [s.xreplace(dict.fromkeys(s.free_symbols, sympy.Integer(USUAL))) for s in strides]
    rows = tuple(range(len(sizes)))
    for order in (rows, tuple(sorted(rows, key=lambda axis: -usual[axis]))):
        expected: Any = sympy.Integer(1)
        for axis in reversed(order):
            if sizes[axis] == 1:
                continue
            if sympy.expand(strides[axis] - expected) != 0:
                break
            expected = expected * sizes[axis]
        else:
            return order if anywhere or _plain(meta.storage_offset()) == 0 else None
    return None


def contiguous(meta: torch.Tensor) -> bool:
    """True if torch's strides are those of a contiguous tensor, including axes of size 1."""
    expected: Any = sympy.Integer(1)
    for size, stride in zip(reversed(meta.shape), reversed(meta.stride()), strict=True):
        if sympy.expand(_plain(stride) - expected) != 0:
            return False
        expected = expected * _plain(size)
    return _plain(meta.storage_offset()) == 0


def _plain(number: Any) -> Any:
    """A size without max(1, ...), which torch writes in strides for the sake of empty tensors."""
    expression = expression_of(number)
    return expression.replace(lambda e: type(e).__name__ == "Max" and 1 in e.args, lambda e: max(e.args, key=_symbolic))


def _symbolic(expression: Any) -> bool:
    return not expression.is_number


class Layout:
    """Sizes, strides and offset of a tensor, which may depend on the sizes of a call."""

    def __init__(self, meta: torch.Tensor, sources: Sequence[Any], start: Any = 0) -> None:
        """sources: what the sizes of a call are read from: torch's views of the values that `at` gets. start: what the offset is
        counted from. Raises KeyError, with the symbol, for what depends on more."""
        self.dtype = meta.dtype
        self.device = meta.device
        self._rank = meta.dim()
        offset = expression_of(meta.storage_offset()) - expression_of(start)
        self._numbers = (*map(expression_of, (*meta.shape, *meta.stride())), offset)
        symbols = sorted({s for e in self._numbers for s in e.free_symbols}, key=str)
        known = _sources(sources) if symbols else {}
        self._symbols = {symbol: known[symbol] for symbol in symbols}
        self._seen: dict[tuple[int, ...], tuple[tuple[int, ...], tuple[int, ...], int]] = {}

    @property
    def fixed(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """Sizes and strides, if they depend on no call and the tensor begins where its memory does."""
        if self._symbols:
            return None
        size, stride, offset = self.at(())
        return None if offset else (size, stride)

    def at(self, values: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        """Sizes, strides and offset where the sources are these."""
        key = tuple(int(values[i] if axis is None else values[i].shape[axis]) for i, axis in self._symbols.values())
        if key not in self._seen:
            numbers = dict(zip(self._symbols, map(sympy.Integer, key), strict=True))
            found = [int(e.xreplace(numbers)) for e in self._numbers]
            self._seen[key] = tuple(found[: self._rank]), tuple(found[self._rank : -1]), found[-1]
        return self._seen[key]

    def empty(self, values: Sequence[Any]) -> torch.Tensor:
        """A tensor that lies so, and says nothing else."""
        size, stride, offset = self.at(values)
        last = 0 if 0 in size else 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        return self.over(torch.empty(offset + last, dtype=self.dtype, device=self.device), values)

    def is_of(self, tensor: torch.Tensor, values: Sequence[Any]) -> bool:
        """True if a tensor has this layout."""
        size, stride, offset = self.at(values)
        return (size, stride, offset) == (tensor.shape, tensor.stride(), tensor.storage_offset())

    def over(self, memory: torch.Tensor, values: Sequence[Any]) -> torch.Tensor:
        """A tensor with this layout in another's memory. It is not a view for autograd, because torch forbids writes to a view
        that a compiled graph returns with others."""
        size, stride, offset = self.at(values)
        return torch.empty(0, dtype=self.dtype, device=memory.device).set_(
            memory.untyped_storage(), offset, size, stride
        )

    def viewing(self, memory: torch.Tensor, values: Sequence[Any]) -> torch.Tensor:
        """Another tensor, or a view of it, with this layout. Writes to either have gradients as in eager mode, except for a view
        of another dtype."""
        size, stride, offset = self.at(values)
        if (self.dtype, size, stride, offset) == (memory.dtype, memory.shape, memory.stride(), memory.storage_offset()):
            return memory
        if memory.dtype != self.dtype:
            return self.over(memory, values)
        with torch.enable_grad():  # autograd refuses writes to a view that was made without
            return memory.as_strided(size, stride, offset)

    def within(self, tensor: torch.Tensor, values: Sequence[Any]) -> torch.Tensor:
        """A view of a graph's input that lies so, counted from where the input begins."""
        size, stride, offset = self.at(values)
        return tensor.as_strided(size, stride, tensor.storage_offset() + offset)

    def holding(self, tensor: torch.Tensor, values: Sequence[Any]) -> torch.Tensor:
        """The tensor's elements where torch takes them to be."""
        size, stride, offset = self.at(values)
        if not offset and stride == tensor.stride() and size == tensor.shape:
            return tensor
        made = self.empty(values)
        once = tuple(slice(0, 1) if step == 0 else slice(None) for step in stride)  # what is expanded is there once
        made[once].copy_(tensor[once])
        return made


def _sources(values: Sequence[Any]) -> Mapping[Any, tuple[int, int | None]]:
    """Symbol -> the value that it is, or the value and the axis whose size it is."""
    found: dict[Any, tuple[int, int | None]] = {}
    for i, value in enumerate(values):
        if isinstance(value, torch.SymInt):
            found.setdefault(expression_of(value), (i, None))
        for axis, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            found.setdefault(expression_of(size), (i, axis))
    return found
