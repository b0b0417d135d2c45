"""The tensors that a forward graph saves for its backward graph, as one block of memory. Start at `merge`, `opened_forward` and
`opened_backward`.

A training step of a transformer saves hundreds of tensors, and each costs the host a call of torch's allocator, a tensor object
and its entry in autograd's record. Only burn's two programs use those tensors. So the forward graph returns one tensor of
bytes, in which each saved tensor has its offset, and the backward graph reads them there.

`merge` writes this into torch's two graphs, because AOTAutograd counts what they pass on. Before burn compiles a graph,
`opened_forward` or `opened_backward` makes the saved tensors outputs and inputs again, with their offsets in the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.utils import top_saved_tensors_hooks

from burn.adapters.torch import gpu_memory
from burn.adapters.torch.layouts import memory_order, outputs_of

IMAGE, SAVED = "burn_image", "burn_saved"
"""Keys of a node's meta data: that it is an image, and torch's view of it as it is saved."""

UNCHECKED = "saved_tensor_with_no_vc_check"
"""AOTAutograd's key for what autograd functions saved as attributes. These tensors are the last, in a list of their own."""

ALIGNMENT = 256
"""Offsets are multiples of this many bytes, as addresses of torch's allocator are multiples of 512."""


def merged(*tensors: torch.Tensor) -> torch.Tensor:
    """Stands in a forward graph for the block of these tensors. It is never called: burn's program writes the block."""
    raise NotImplementedError("a program of burn writes the block of saved tensors; this graph was run without one")


def part(
    block: torch.Tensor, offset: int, size: Sequence[int], stride: Sequence[int], dtype: torch.dtype
) -> torch.Tensor:
    """A tensor in a block. offset: in bytes."""
    count = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
    return block[offset : offset + count * dtype.itemsize].view(dtype).as_strided(size, stride)


@dataclass(frozen=True)
class Block:
    """The block among a graph's outputs or inputs. index: its number there. first: the number of its first member, which is an
    output or input of burn's program only. offsets: of the members, in bytes. bytes: of the block."""

    index: int
    first: int
    offsets: tuple[int, ...]
    bytes: int


def merge(forward: fx.GraphModule, backward: fx.GraphModule, num_fwd_outputs: int) -> None:
    """Replaces the tensors that a forward graph computes and saves by one. Those of unknown sizes, and those that the caller
    gets or gave, stay. With hooks on saved tensors all stay, because hooks look at them."""
    output = next(n for n in reversed(forward.graph.nodes) if n.op == "output")
    returned = list(output.args[0])
    placeholders = {n.name: n for n in backward.graph.nodes if n.op == "placeholder"}
    members = [
        n
        for n in dict.fromkeys(returned[num_fwd_outputs:])
        if isinstance(n, fx.Node) and n not in returned[:num_fwd_outputs] and n.name in placeholders and _fits(n)
    ]
    if len(members) < 2 or top_saved_tensors_hooks() is not None:
        return
    total, offsets = 0, []
    for node in members:
        offsets.append(total)
        value = _as_saved(node)
        total += -(-value.numel() * value.element_size() // ALIGNMENT) * ALIGNMENT
    block = _as_saved(members[0]).new_empty((total,), dtype=torch.uint8)
    meta = {key: value for key, value in members[0].meta.items() if key not in (IMAGE, SAVED, "tensor_meta")}
    with forward.graph.inserting_before(output):
        made = forward.graph.call_function(merged, tuple(members))
    made.meta = {**meta, "val": block}
    _return_instead(output, members, made)
    own = [placeholders[n.name] for n in members]
    with backward.graph.inserting_before(own[0]):
        given = backward.graph.placeholder(made.name)
    given.meta = {**own[0].meta, "val": block}
    with backward.graph.inserting_after(next(n for n in reversed(backward.graph.nodes) if n.op == "placeholder")):
        for node, offset in zip(reversed(own), reversed(offsets), strict=True):
            value = node.meta["val"]
            read = backward.graph.call_function(part, (given, offset, tuple(value.shape), value.stride(), value.dtype))
            read.meta = dict(node.meta)
            node.replace_all_uses_with(read)
    for node in own:
        backward.graph.erase_node(node)
    for graph in (forward, backward):
        graph.recompile()


def _fits(node: fx.Node) -> bool:
    value = _as_saved(node) if isinstance(node.meta.get("val"), torch.Tensor) else None
    if node.op == "placeholder" or value is None or value.layout is not torch.strided or node.meta.get(UNCHECKED):
        return False
    if value.is_complex() or value.is_neg() or not all(isinstance(d, int) for d in value.shape) or not value.numel():
        return False
    return gpu_memory.where(value).type != "cpu" and memory_order(value) is not None


def _as_saved(node: fx.Node) -> torch.Tensor:
    return node.meta.get(SAVED, node.meta["val"])


def _return_instead(output: fx.Node, members: Sequence[fx.Node], made: fx.Node) -> None:
    """Returns `made` in the place of the first member."""
    given: Any = output.args[0]
    returned, left = list(given), set(members)
    kept = [i for i, n in enumerate(returned) if n is members[0] or not (isinstance(n, fx.Node) and n in left)]
    output.args = (tuple(made if returned[i] is members[0] else returned[i] for i in kept),)
    about = output.meta.get("desc")
    if isinstance(about, (list, tuple)) and len(about) == len(returned):
        output.meta = {**output.meta, "desc": [about[i] for i in kept]}


# ---- burn's graphs -----------------------------------------------------------------------------------------------------------
def opened_forward(graph: fx.GraphModule) -> Block | None:
    """Makes the members of a block the last outputs of a forward graph, and returns None where the block was."""
    node = next((n for n in graph.graph.nodes if n.target is merged), None)
    if node is None:
        return None
    output = next(n for n in reversed(graph.graph.nodes) if n.op == "output")
    returned = outputs_of(graph)
    members = list(node.args)
    sizes = [-(-v.numel() * v.element_size() // ALIGNMENT) * ALIGNMENT for v in map(_as_saved, members)]
    offsets = tuple(sum(sizes[:i]) for i in range(len(sizes)))
    index = returned.index(node)
    output.args = ((*(None if n is node else n for n in returned), *members),)
    graph.graph.erase_node(node)
    graph.recompile()
    return Block(index, len(returned), offsets, node.meta["val"].numel())


def opened_backward(graph: fx.GraphModule) -> Block | None:
    """Makes the members of a block the last inputs of a backward graph. The block itself stays an input that no node reads."""
    reads = [n for n in graph.graph.nodes if n.target is part]
    if not reads:
        return None
    placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
    given: Any = reads[0].args[0]
    last = placeholders[-1]
    for node in reads:
        with graph.graph.inserting_after(last):
            last = graph.graph.placeholder(node.name)
        last.meta = dict(node.meta)
        node.replace_all_uses_with(last)
        graph.graph.erase_node(node)
    graph.recompile()
    offsets = tuple(n.args[1] for n in reads)
    return Block(placeholders.index(given), len(placeholders), offsets, given.meta["val"].numel())
