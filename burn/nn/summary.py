"""`Module.summary`: a table of a module's parts, their parameters, and, for given inputs, their output types."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from burn.dialect.spec import spec_of
from burn.tensors import Tensor
from burn.tensors.tracer import Tracer, tracing

if TYPE_CHECKING:
    from burn.nn.module import Module

observer: ContextVar[Observer | None] = ContextVar("observer", default=None)
"""The current observer of module calls."""


class Observer:
    """Records the result types of each module's first call."""

    def __init__(self) -> None:
        self.outputs: dict[int, str] = {}

    def saw(self, module: Module, result: Any) -> None:
        self.outputs.setdefault(id(module), _types(result))


def _types(result: Any) -> str:
    if isinstance(result, Tensor):
        return str(result.type)
    if isinstance(result, dict):
        result = tuple(result.values())
    return ", ".join(filter(None, map(_types, result))) if isinstance(result, (tuple, list)) else ""


def table(module: Module, inputs: Sequence[Any]) -> str:
    """The text of `Module.summary`. It computes nothing: with inputs it traces the module."""
    outputs = _outputs(module, inputs) if inputs else None
    head = ["module", "kind", *(["output"] if outputs is not None else []), "parameters", "shapes"]
    rows = []
    counted: set[int] = set()
    for path, part in module.named_modules():
        own = [value for value in vars(part).values() if _is_parameter(value)]
        shown = "" if outputs is None else outputs.get(id(part), "")
        if not own and not shown:
            continue
        new = {id(p): p for p in own if id(p) not in counted}
        counted.update(id(p) for p in own)
        shapes = ", ".join(f"[{', '.join(map(str, p.shape))}]" + ("" if id(p) in new else " shared") for p in own)
        count = f"{sum(p.count for p in new.values()):,}" if own else ""
        columns = [path or type(part).__name__, type(part).__name__]
        rows.append([*columns, *([shown] if outputs is not None else []), count, shapes])
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head) - 1)]
    numeric = len(head) - 2
    lines = []
    for row in [head, *rows]:
        cells = [f"{c:>{w}}" if i == numeric else f"{c:{w}}" for i, (c, w) in enumerate(zip(row, widths, strict=False))]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    every = list(dict(module.named_parameters()).values())
    total, size = module.num_params(True), sum(p.count * p.type.element_bytes for p in every)
    lines.append(f"{module.num_params(trainable=True):,} trainable parameters, {total:,} in all, {_bytes(size)}")
    return "\n".join(lines)


def _is_parameter(value: Any) -> bool:
    from burn.nn.parameter import Parameter

    return isinstance(value, Parameter)


def _outputs(module: Module, inputs: Sequence[Any]) -> dict[int, str]:
    tracer = Tracer([(f"input_{i}", spec_of(example)) for i, example in enumerate(inputs)])
    watching = Observer()
    token = observer.set(watching)
    try:
        with tracing(tracer):
            module(*map(Tensor, tracer.program.inputs))
    finally:
        observer.reset(token)
    return watching.outputs


def _bytes(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    raise AssertionError
