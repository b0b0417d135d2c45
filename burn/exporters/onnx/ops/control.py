"""Control flow: regions become subgraphs, which see the names around them."""

from __future__ import annotations

from burn.exporters.onnx.emitters import Site, emits


@emits("if")
def if_(site: Site) -> list[str] | None:
    branches = {}
    base = site.graph.fresh("if")
    for name, region in zip(("then_branch", "else_branch"), site.op.operation.regions, strict=True):
        branches[name] = site.region(region, f"{base}/{name}", [])
    if None in branches.values():
        return None
    return _with_types(site, "If", site.inputs, branches)


@emits("loop")
def loop(site: Site) -> list[str] | None:
    trips, condition, carried = site.inputs
    base = site.graph.fresh("loop")
    arguments = ["iteration", "condition", *(f"carried_{i}" for i in range(len(carried)))]
    body = site.region(site.op.operation.regions[0], f"{base}/body", arguments)
    if body is None:
        return None
    return _with_types(site, "Loop", [trips, condition, *carried], {"body": body})


def _with_types(site: Site, operator: str, inputs: list[str | None], graphs: dict) -> list[str]:
    names = site.node(operator, *inputs, outputs=max(len(site.results), 1), **graphs)
    names = [names] if isinstance(names, str) else names
    for name, type_ in zip(names, site.results, strict=True):
        site.graph.dtypes[name] = type_.dtype
        site.sizes.of_value(name, type_)
    return names
