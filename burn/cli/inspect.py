"""`burn inspect`: what is in a model."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from burn.cli.common import Size, command, console, echo, existing, once, print_json
from burn.errors import BurnError


@command
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--dim", "dims", type=Size(), multiple=True, callback=once, help="fix the size of a symbol; repeatable")
@click.option("--dot", "as_dot", is_flag=True, help="print the graph in Graphviz' language")
@click.option("--json", "as_json", is_flag=True, help="report as JSON")
def main(model: Path, dims: tuple[tuple[str, int], ...], as_dot: bool, as_json: bool) -> None:
    """Say what is in MODEL: an ONNX file, or a compiled program."""
    existing(model)
    if as_dot and as_json:
        raise click.UsageError("--dot and --json exclude each other")
    if _is_compiled(model):
        if as_dot or dims:
            raise BurnError(f"{model} is compiled: it has no graph any more, and its sizes cannot be changed")
        _compiled(model, as_json)
        return
    from burn.cli.facts import Facts
    from burn.exporters.python.graph import read
    from burn.loading import read_program

    graph = read(read_program(model, dict(dims)))
    if as_dot:
        echo(dot(graph, model.name))
    elif as_json:
        print_json(Facts.of(graph).as_json())
    else:
        Facts.of(graph).show(console())


def _is_compiled(model: Path) -> bool:
    from burn.runtime.package import MAGIC

    with open(model, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def _compiled(model: Path, as_json: bool) -> None:
    from burn.cli.facts import human
    from burn.runtime import package

    programs = package.read(model)
    artefact = package.chosen(programs)
    signature = artefact.signature
    facts = {
        "inputs": [{"name": s.name, "dtype": s.dtype, "shape": list(s.dims)} for s in signature.inputs],
        "outputs": [{"name": s.name, "dtype": s.dtype, "shape": list(s.dims)} for s in signature.outputs],
        "target": artefact.target.triple,
        "features": list(artefact.target.features),
        "kernels": len(artefact.kernels),
        "code_bytes": memoryview(artefact.code).nbytes,
        "constants_bytes": sum(c.bytes for c in artefact.constants),
        "burn_version": artefact.burn_version,
        "programs": [
            {"target": program.target.triple, "features": list(program.target.features)} for program in programs
        ],
    }
    if as_json:
        print_json(facts)
        return
    for kind in ("inputs", "outputs"):
        for row in facts[kind]:
            echo(f"{kind[:-1]:7} {row['name']}: {row['dtype']}[{', '.join(map(str, row['shape']))}]")
    echo(f"{facts['kernels']} kernels, {human(facts['code_bytes'])} of code for {facts['target']}")
    if len(programs) > 1:
        echo(f"one of {len(programs)} programs: for {', '.join(p.target.triple for p in programs)}")
    echo(f"needs {', '.join(facts['features']) or 'no CPU extensions'}")
    echo(f"{human(facts['constants_bytes'])} of constants; compiled by burn {facts['burn_version']}")


def dot(graph, title: str) -> str:
    """The graph for Graphviz: boxes are ops, constants are left out, regions are clusters."""
    lines = [f"digraph {_quoted(title)} {{", "  node [shape=box, fontname=sans];"]
    numbers: dict[object, int] = {}

    def name(node) -> str:
        return f"n{numbers.setdefault(node, len(numbers))}"

    def block(nodes, indent: str) -> None:
        for node in nodes:
            label = "\\n".join([node.op, *([node.source] if node.source else []), *(str(t) for t in node.types)])
            lines.append(f"{indent}{name(node)} [label={_quoted(label)}];")
            for value in node.values:
                if value.node.op != "constant":
                    lines.append(f"{indent}{name(value.node)} -> {name(node)};")
            for number, region in enumerate(node.regions):
                lines.append(f"{indent}subgraph cluster_{name(node)}_{number} {{")
                lines.append(f"{indent}  label={_quoted(f'{node.op} {number}')};")
                block(region.nodes, indent + "  ")
                lines.append(f"{indent}}}")

    for label, node in zip(graph.input_names, graph.inputs, strict=True):
        lines.append(f"  {name(node)} [label={_quoted(f'{label}: {node.types[0]}')}, shape=ellipse];")
    block(graph.nodes, "  ")
    for index, (label, value) in enumerate(zip(graph.output_names, graph.outputs, strict=True)):
        lines.append(f"  out{index} [label={_quoted(f'{label}: {value.type}')}, shape=ellipse];")
        if value.node.op != "constant":
            lines.append(f"  {name(value.node)} -> out{index};")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '\\"') + '"'


if __name__ == "__main__":
    sys.exit(main())
