"""Facts about a program: signature, ops, parameters, arithmetic. Start at `Facts.of`."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from burn.dialect.dims import Dim, product
from burn.dialect.types import DTYPES
from burn.dialect.weights import byte_size
from burn.exporters.python.graph import Graph, Value, walk


@dataclass(frozen=True)
class Facts:
    """Sizes are numbers, or expressions over the symbols of the inputs."""

    inputs: list[dict[str, Any]]
    outputs: list[dict[str, Any]]
    ops: dict[str, int]  # by name, the most frequent first
    parameters: int  # numbers in floating-point constants
    constants_bytes: int
    flops: int | str  # the sum of `Op.flops`: two for each multiply-add

    @staticmethod
    def of(graph: Graph) -> Facts:
        nodes = list(walk(graph.nodes))
        values = [v for n in nodes for v in n.values] + graph.outputs
        values += [v for n in nodes for r in n.regions for v in r.results]
        constants = {v.node: v for v in values if v.node.op == "constant"}
        floats = [v for v in constants.values() if DTYPES[v.type.dtype].kind in ("float", "small")]
        flops: Dim = 0
        for node in nodes:
            flops = flops + node.flops
        return Facts(
            [_spec(name, n.result) for name, n in zip(graph.input_names, graph.inputs, strict=True)],
            [_spec(name, v) for name, v in zip(graph.output_names, graph.outputs, strict=True)],
            dict(Counter(n.op for n in nodes).most_common()),
            sum(_count(v) for v in floats),
            sum(byte_size(v.type.dtype, _shape(v)) for v in constants.values() if v.type.dtype != "string"),
            flops if isinstance(flops, int) else str(flops),
        )

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def show(self, console: Console) -> None:
        table = Table(box=None, header_style="bold", pad_edge=False)
        for column in ("", "name", "type"):
            table.add_column(column)
        for kind, rows in (("input", self.inputs), ("output", self.outputs)):
            for row in rows:
                table.add_row(kind, row["name"], f"{row['dtype']}[{', '.join(map(str, row['shape']))}]")
        console.print(table)
        total = sum(self.ops.values())
        most = ", ".join(f"{count} {name}" for name, count in list(self.ops.items())[:8])
        console.print(f"{total} ops: {most}{', ...' if len(self.ops) > 8 else ''}")
        console.print(f"{self.parameters:,} parameters, {human(self.constants_bytes)} of constants")
        work = f"{self.flops / 1e9:.3g} GFLOP" if isinstance(self.flops, int) else f"{self.flops} FLOP"
        console.print(f"{work} in matmuls and convolutions per run")


def human(size: float) -> str:
    """Bytes with a unit."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _spec(name: str, value: Value) -> dict[str, Any]:
    return {
        "name": name,
        "dtype": value.type.dtype,
        "shape": [d if isinstance(d, int) else str(d) for d in value.type.shape],
    }


def _shape(value: Value) -> tuple[int, ...]:
    return tuple(d for d in value.type.shape if isinstance(d, int))


def _count(value: Value) -> int:
    total = product(value.type.shape)
    assert isinstance(total, int)
    return total
