"""Custom ops (`burn.custom_op`): nodes of their own domain."""

from __future__ import annotations

from burn.exporters.onnx.emitters import Site, emits


@emits("custom")
def custom(site: Site) -> list[str]:
    """demo::scale is the operator `scale` of the domain `demo`, with the op's attributes."""
    domain, _, operator = site.op.called.partition("::")
    attributes = site.op.shown
    if empty := [name for name, value in attributes.items() if value == ()]:
        site.refuse(f"ONNX does not say the type of the empty list that is the attribute '{empty[0]}'")
    dtypes = [type_.dtype for type_ in site.results]
    inputs = [name or "" for name in site.op.definition.complete(site.inputs[0])]
    while inputs and not inputs[-1]:
        inputs.pop()
    return site.graph.foreign(domain, operator, inputs, dtypes, attributes)
