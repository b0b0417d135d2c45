"""Where AOTAutograd's joint graph is cut into a forward and a backward graph, and how saved tensors lie in memory. Enter at
`partition`.

torch's default saves every intermediate tensor that the backward pass reads, also those that pointwise ops make of other saved
ones. On a GPU memory traffic costs more than such ops, so there the backward pass computes them again, as in Inductor.

burn's convolutions are channels-last. A saved image of torch's usual layout would be transposed by the forward graph and
again by the backward graph, so it is saved channels-last. Only burn's two programs see it. Saved tensors become one block
(`saved.py`).
"""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import default_partition, min_cut_rematerialization_partition

from burn.adapters.torch.layouts import contiguous
from burn.adapters.torch.saved import IMAGE, SAVED, merge

aten = torch.ops.aten
CONVOLUTIONS = (aten.convolution.default, aten.convolution_backward.default)
KEEPING = (
    "max_pool2d_with_indices",
    "max_pool3d_with_indices",
    "avg_pool2d",
    "avg_pool3d",
    "cat",
    "_to_copy",
    "convert_element_type",
    "clone",
    "native_group_norm",
    "_native_batch_norm_legit_functional",
    "_native_batch_norm_legit_no_training",
    "native_batch_norm_backward",
)
"""Operators, besides pointwise ones, that give images where they take images."""


def partition(
    joint: fx.GraphModule, inputs: Any, *, num_fwd_outputs: int, recompute: bool, **facts: Any
) -> tuple[fx.GraphModule, fx.GraphModule]:
    """The forward and the backward graph. recompute: on a GPU; pointwise ops in the backward pass instead of saving their
    results, and one block of saved tensors. facts: AOTAutograd's own, passed on."""
    for node in _images(joint.graph):
        node.meta[IMAGE] = True
    cut = min_cut_rematerialization_partition if recompute else default_partition
    forward, backward = cut(joint, inputs, num_fwd_outputs=num_fwd_outputs, **facts)
    returned = next(n for n in reversed(forward.graph.nodes) if n.op == "output").args[0]
    saved: dict[str, torch.Tensor] = {}
    for node in dict.fromkeys(returned[num_fwd_outputs:]):
        if isinstance(node, fx.Node) and node.op != "placeholder" and node not in returned[:num_fwd_outputs]:
            laid = _channels_last(node.meta["val"]) if IMAGE in node.meta else None
            if laid is not None:
                node.meta = {**node.meta, SAVED: laid}
                saved[node.name] = laid
    for node in backward.graph.nodes:
        if node.op == "placeholder" and node.name in saved:
            node.meta = {**node.meta, "val": saved[node.name]}
    if recompute:
        merge(forward, backward, num_fwd_outputs)
    return forward, backward


def _channels_last(value: torch.Tensor) -> torch.Tensor | None:
    """torch's view of a tensor with its channels last; None for one that lies in an order of its own."""
    if value.layout is not torch.strided or value.is_complex() or not contiguous(value):
        return None
    rank, step = value.dim(), 1
    strides: list[Any] = [0] * rank
    for axis in (1, *range(rank - 1, 1, -1), 0):
        strides[axis], step = step, step * value.shape[axis]
    return value.new_empty_strided(value.shape, strides)


def _images(graph: fx.Graph) -> set[fx.Node]:
    """Operands and results of convolutions, and what pointwise ops and pools make of them or make them of."""
    found: set[fx.Node] = set()
    todo: list[fx.Node] = []
    for node in graph.nodes:
        if node.target in CONVOLUTIONS:
            backward = node.target is CONVOLUTIONS[1]
            todo += [n for n in node.args[: 1 + backward] if isinstance(n, fx.Node)]
            todo += [user for user in node.users if user.args[1] == 0] if backward else [node]
    while todo:
        node = todo.pop()
        if node not in found and _rank(node) > 2:
            found.add(node)
            todo += _alike(node)
    return found


def _alike(node: fx.Node) -> Iterator[fx.Node]:
    """The neighbours that are images if a node is one."""
    for user in node.users:
        if _keeps(user):
            yield from (user, *(each for each in user.users if each.target is operator.getitem))
    call = node.args[0] if node.target is operator.getitem else node
    if isinstance(call, fx.Node) and _keeps(call):
        yield from call.all_input_nodes


def _keeps(node: fx.Node) -> bool:
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    return torch.Tag.pointwise in target.tags or target.overloadpacket.__name__ in KEEPING


def _rank(node: fx.Node) -> int:
    value = node.meta.get("val")
    return value.dim() if isinstance(value, torch.Tensor) else 0
