"""Layouts of outputs that are views of a graph's inputs, as eager mode has them. Start at `layouts_of_views`.

In a functional graph a written input has a new value, which is a tensor of its own: its strides may be others, and it begins at
offset 0. A view of that value has the right elements. Its layout is counted in the wrong memory, because eager mode writes to
the input, and the view is in the input's storage. The chain of views from the new value to the output says which view it is.
Applied to the input, it gives the layout.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import SyntheticBaseAOTInput, ViewBaseAOTInput
from torch._functorch._aot_autograd.schemas import OutputType, ViewAndMutationMeta

from burn.adapters.torch.layouts import outputs_of, renewed
from burn.errors import ModelError, Problem
from burn.importers.torch.build import SUMMARY
from burn.importers.torch.sizes import expression_of

BASES = (SyntheticBaseAOTInput, ViewBaseAOTInput)
"""AOTAutograd's descriptions of an input that replaces inputs that share a storage: the storage, or a tensor that the inputs are
views of."""


def assigned(graph: fx.GraphModule) -> dict[int, fx.Node]:
    """Placeholder -> its new value, for inputs that the graph writes itself, at its end."""
    numbers = {n: i for i, n in enumerate(n for n in graph.graph.nodes if n.op == "placeholder")}
    writes = (n for n in graph.graph.nodes if n.target is torch.ops.aten.copy_.default)
    return {numbers[n.args[0]]: n.args[1] for n in writes}


def forget_replays(graph: fx.GraphModule, metadata: ViewAndMutationMeta) -> None:
    """Makes torch read the layouts of outputs that are views of a base, see `BASES`.

    AOTAutograd recorded such an output as a chain of views of the input that it has replaced. It would apply the chain to the
    base: `view(-1)` of an input with one element would be the whole storage."""
    replaced = {i for i, node in enumerate(_arguments(graph, metadata)) if isinstance(node.meta.get("desc"), BASES)}
    for i, info in enumerate(metadata.output_info):
        if info.output_type is OutputType.alias_of_input and info.base_idx in replaced:
            metadata.output_info[i] = replace(info, view_meta_sequence=None)


def layouts_of_views(graph: fx.GraphModule, metadata: ViewAndMutationMeta) -> dict[int, torch.Tensor]:
    """Output -> a fake tensor with the layout of eager mode, for outputs that are views of the new value of an input.

    Raises ModelError for an output whose layout the graph does not tell."""
    inputs, returned = _arguments(graph, metadata), outputs_of(graph)
    updates = {output: index for output, index in renewed(metadata).items() if isinstance(returned[output], fx.Node)}
    written = {i - len(metadata.tokens): node for i, node in assigned(graph).items()}
    found: dict[int, torch.Tensor] = {}
    for output, (index, replayed) in _views(metadata).items():
        node, metadata_too = returned[output], metadata.input_info[index].mutates_metadata
        if not isinstance(node, fx.Node) or not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        # The new value of an input that also has another shape is itself a view.
        ends = [] if metadata_too else [returned[o] for o, i in updates.items() if i == index]
        ends += [written[index]] if index in written else []
        try:
            found[output] = _Replay(inputs[index], frozenset(ends)).of(node)
        except _UnknownError as error:
            if replayed:  # torch reads nothing but the shape
                continue
            raise ModelError(SUMMARY, [Problem(f"output {output}: {error}", hint="return a .clone() of it")]) from None
    return found


def parts_of_inputs(graph: fx.GraphModule, metadata: ViewAndMutationMeta) -> dict[int, tuple[int, torch.Tensor]]:
    """Output -> the number of the placeholder that it shares memory with, and a fake tensor with its layout there.

    These outputs are views of the new value of an input. torch does not make them from the input. They are results of `unbind`,
    `split` and `chunk` in a graph with gradients."""
    inputs, returned = _arguments(graph, metadata), outputs_of(graph)
    updates = [(returned[o], i) for o, i in renewed(metadata).items() if not metadata.input_info[i].mutates_metadata]
    updates += [(node, i - len(metadata.tokens)) for i, node in assigned(graph).items()]
    first = len(metadata.tokens) + len(metadata.mutated_inp_runtime_indices)
    found: dict[int, tuple[int, torch.Tensor]] = {}
    for output, info in enumerate(metadata.output_info, first):
        node = returned[output]
        if info.output_type is not OutputType.non_alias or not isinstance(node, fx.Node):
            continue
        for update, index in updates:
            if node is not update and _root(node) is update:
                layout = _Replay(inputs[index], frozenset({update})).of(node)
                found[output] = index + len(metadata.tokens), layout
    return found


def _root(node: fx.Node) -> fx.Node:
    """The first call of a chain of views."""
    viewed = _viewed(node)
    return _root(viewed[0]) if viewed else node


def _arguments(graph: fx.GraphModule, metadata: ViewAndMutationMeta) -> list[fx.Node]:
    """The graph's inputs as AOTAutograd counts them."""
    return [n for n in graph.graph.nodes if n.op == "placeholder"][len(metadata.tokens) :]


def _views(metadata: ViewAndMutationMeta) -> dict[int, tuple[int, bool]]:
    """Output -> the input that it is a view of, and true if torch applies the views instead of reading the layout. The new value
    of an input with another shape or other strides is also such a view."""
    updates, info = renewed(metadata), metadata.input_info
    found = {
        output: (i, False)
        for output, i in updates.items()
        if info[i].mutates_metadata and not info[i].mutates_storage_metadata
    }
    for output, made in enumerate(metadata.output_info, len(metadata.tokens) + len(updates)):
        if made.output_type is OutputType.alias_of_input and made.base_idx is not None:
            chain = made.view_meta_sequence
            # torch drops a chain with symbolic sizes once the graph is compiled.
            replayed = chain is not None and not any(view.has_symbolic_inputs for view in chain.sequence)
            found[output] = made.base_idx, replayed
    return found


class _UnknownError(Exception):
    """The graph does not tell the layout of an output. The message says why."""


@dataclass(frozen=True)
class _Replay:
    """Applies chains of views to an input. ends: nodes that are the input's new value."""

    input: fx.Node
    ends: frozenset[fx.Node]

    def of(self, node: fx.Node) -> torch.Tensor:
        """Raises _UnknownError."""
        given = self.input.meta["val"]
        with given.fake_mode, torch.no_grad():
            made = self._value(node)
        if given.dtype.itemsize != made.dtype.itemsize and given.is_complex() == made.is_complex():
            reason = (
                f"it is a view as {made.dtype} of an input of {given.dtype}, and torch counts its layout in the latter"
            )
            raise _UnknownError(reason)
        return made

    def _value(self, node: fx.Node) -> Any:
        """A node's value where the input has its own layout."""
        given = self.input.meta["val"]
        if node is self.input or node in self.ends:
            return given
        viewed = _viewed(node)
        if not viewed:  # the new value of the input
            value = node.meta["val"]
            if value.dtype != given.dtype or _numbers(value.shape) != _numbers(given.shape):
                raise _UnknownError(f"it is a view of '{node.name}', which has another shape or type than the input")
            return given
        values = {n: self._value(n) if n in viewed else n.meta.get("val") for n in node.all_input_nodes}
        args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
        return node.target(*args, **kwargs)  # type: ignore[operator]


def _viewed(node: fx.Node) -> list[fx.Node]:
    """The operands that a call's results are views of."""
    storages = _storages(node.meta.get("val"))
    return [n for n in node.all_input_nodes if storages & _storages(n.meta.get("val"))]


def _storages(value: Any) -> set[int]:
    """The memory of a value, which may be several tensors."""
    values = value if isinstance(value, (list, tuple)) else [value]
    return {v.untyped_storage()._cdata for v in values if isinstance(v, torch.Tensor)}


def _numbers(sizes: Any) -> list[Any]:
    return [expression_of(size) for size in sizes]
