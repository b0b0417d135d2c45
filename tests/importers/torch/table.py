"""The table of models in docs/guide/pytorch.md: `python -m tests.importers.torch.table [--small] [--update] [names...]`.

Each model is compiled once with the sizes that vary and compared with eager torch at every pair of sizes in its entry, both
through `burn.compile` and through `torch.compile(backend="burn", dynamic=True)`. `--small` takes the tests' configurations;
`--update` writes the table into the guide. Exits with 1 where a model fails or an error is above its tolerance.
"""

from __future__ import annotations

import argparse
import logging
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

import burn
from burn.importers.torch.export import export
from burn.importers.torch.exported import decomposed
from tests.models.torch_models import MODELS, TorchModel

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guide" / "pytorch.md"
BEGIN, END = "<!-- models: begin -->", "<!-- models: end -->"
HEADER = (
    "| model | parameters | ATen operators (kinds) | sizes that vary | programs | `burn.compile` | `torch.compile` |"
)


def worst_error(case: TorchModel, model: torch.nn.Module, run: Callable[..., Any]) -> float:
    """The largest |got - want| / (1 + |want|) over all sizes and outputs."""
    worst = 0.0
    for batch, length in case.sizes:
        with torch.no_grad():
            want = model(**case.inputs(model, batch, length))
            got = run(**case.inputs(model, batch, length))
        pairs = zip(*(tensors(r) for r in (got, want)), strict=True)
        worst = max(worst, *(((a - b).abs() / (1 + b.abs())).max().item() for a, b in pairs))
    return worst


def tensors(result: Any) -> list[torch.Tensor]:
    return [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]


def row(case: TorchModel, true_size: bool) -> tuple[list[str], bool]:
    """One line of the table, and whether all is well."""
    model = case.build(true_size)
    inputs = case.inputs(model, *case.sizes[0])
    graph = decomposed(export(model, (), inputs, case.dynamic).program).graph
    calls = [str(n.target) for n in graph.nodes if n.op == "call_function" and str(n.target).startswith("aten.")]
    before = burn.compile_count()
    compiled = burn.compile(model, None, case.dynamic, kwargs=inputs)
    error = worst_error(case, model, compiled)
    programs = burn.compile_count() - before
    torch._dynamo.reset()
    backend_error = worst_error(case, model, torch.compile(model, backend="burn", dynamic=True))
    names = sorted({str(d) for spec in compiled.inputs for d in spec.dims if isinstance(d, str)})
    parameters = sum(p.numel() for p in model.parameters())
    good = max(error, backend_error) <= case.tolerance and programs == 1
    columns = [
        case.name,
        f"{parameters / 1e6:.1f} M",
        f"{len(calls)} ({len(set(calls))})",
        ", ".join(names),
        str(programs),
        f"{error:.1e}",
        f"{backend_error:.1e}",
    ]
    return columns, good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of models' names")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    lines, failed = [HEADER, "|" + "---|" * (HEADER.count("|") - 1)], False
    print("\n".join(lines))
    for case in MODELS.values():
        if options.names and not any(n.lower() in case.name.lower() for n in options.names):
            continue
        try:
            columns, good = row(case, not options.small)
        except Exception as error:  # the other models are still tried; the exit status tells
            columns, good = [case.name, f"failed: {type(error).__name__}: {str(error).splitlines()[0][:100]}"], False
        failed = failed or not good
        lines.append(f"| {' | '.join(columns)} |")
        print(lines[-1], flush=True)
    if options.update and not failed:
        update(lines)
    return int(failed)


def update(lines: list[str]) -> None:
    """Puts rows into the guide's table, in the order of `MODELS`; those of models that were not run stay."""
    before, _, rest = GUIDE.read_text().partition(BEGIN)
    table, _, after = rest.partition(END)
    rows = {line.split("|")[1].strip(): line for line in (*table.splitlines(), *lines[2:]) if line.startswith("|")}
    kept = [rows[case.name] for case in MODELS.values() if case.name in rows]
    GUIDE.write_text("\n".join([before + BEGIN, *lines[:2], *kept, END + after]))


if __name__ == "__main__":
    sys.exit(main())
