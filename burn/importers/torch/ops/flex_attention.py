"""flex_attention in exported programs: the call is traced with the functions of scores and positions mapped over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

from burn.dialect.mlir import ir
from burn.importers.core import FAILED, Skipped
from burn.importers.torch.flex_attention import flex_attention
from burn.importers.torch.node import Node, higher_order


@higher_order("flex_attention")
def flex(
    node: Node,
    query: ir.Value,
    key: ir.Value,
    value: ir.Value,
    score: fx.GraphModule,
    block_mask: Sequence[Any],
    scale: float,
    kernel_options: Any,
    score_tensors: Sequence[Any] = (),
    mask_tensors: Sequence[Any] = (),
) -> list[Any]:
    from burn.importers.torch.decompositions import for_autograd  # which reads the table of builders

    captured = len(score_tensors)

    def call(q: Any, k: Any, v: Any, *tensors: Any) -> Any:
        of_scores, of_mask = tensors[:captured], tensors[captured:]
        return flex_attention(q, k, v, score, block_mask, scale, kernel_options, of_scores, of_mask)

    arguments = cast("Sequence[Any]", node.fx.args)
    given = [*arguments[:3], *(a for group in arguments[7:] for a in group)]
    fakes = [a.meta["val"] if isinstance(a, fx.Node) else a for a in given]
    with fakes[0].fake_mode:
        graph = make_fx(call, decomposition_table=for_autograd())(*fakes)
    results = node.importer.run(graph, [query, key, value, *score_tensors, *mask_tensors])
    if any(result is FAILED for result in results):
        raise Skipped
    return results
