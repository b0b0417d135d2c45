"""Ops that have no meaning in a program for one device, and collectives, which have one where there is a single replica."""

from __future__ import annotations

from typing import Any

from burn.dialect.compose import number as scalar
from burn.importers.stablehlo.node import REFUSED, Node, rule
from burn.importers.stablehlo.syntax.module import Elements

_HOST = "exchanges data with a host while the program runs, which burn does not do"
_SEVERAL = "computes with several devices; the program must be for one"
_BOUNDED = "makes a size vary within a bound; export the program with symbolic sizes instead"

REFUSED.update(
    {
        "stablehlo.infeed": _HOST,
        "stablehlo.outfeed": _HOST,
        "stablehlo.send": _HOST,
        "stablehlo.recv": _HOST,
        "stablehlo.async_start": "starts work that another op waits for, which burn does not do",
        "stablehlo.async_done": "waits for work that another op started, which burn does not do",
        "stablehlo.set_dimension_size": _BOUNDED,
        "stablehlo.all_to_all": _SEVERAL,
        "stablehlo.collective_permute": _SEVERAL,
        "stablehlo.collective_reduce": _SEVERAL,
        "sdy.manual_computation": _SEVERAL,
        "sdy.all_reduce": _SEVERAL,
        "sdy.all_gather": _SEVERAL,
        "chlo._asin_acos_kernel": "is of complex numbers, which are not supported here",
    }
)


def _alone(node: Node) -> None:
    """Fails unless each group of the collective has one member."""
    groups = node.attribute("replica_groups", None)
    node.no_effect("channel_handle", "use_global_device_ids", "all_gather_dim", "scatter_dimension")
    width = groups.type.shape[-1] if isinstance(groups, Elements) and groups.type.shape else None
    if width not in (0, 1) and not (isinstance(groups, Elements) and 0 in groups.type.shape):
        node.fail(_SEVERAL)


@rule("all_reduce", "all_gather", "reduce_scatter", "collective_broadcast", "cross-replica-sum")
def collective(node: Node) -> list[Any]:
    """The identity for a group of one device."""
    _alone(node)
    return list(node.operands)


@rule("partition_id", "replica_id")
def number(node: Node) -> Any:
    """0: there is one device."""
    return scalar(0, node.dtype)


@rule("sharding_constraint", "reshard", dialect="sdy")
def constraint(node: Node) -> list[Any]:
    """Where a tensor lies does not change its elements."""
    node.no_effect("sharding")
    return list(node.operands)
