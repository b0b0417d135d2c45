"""Complex tensors while importing: pairs of real ones. There are no complex numbers in the program.

A call with a complex operand or result takes its builder from `COMPLEX`, and from nowhere else. An operator that only moves
elements, or is linear in them, does the same to both parts: `by_parts` makes its builder of the real one, which sees the
call as if it were real (`Part`). A program's inputs and outputs are never complex: torch.view_as_complex and view_as_real
stand at its edges, put there by torch.compile's adapter. Constants may be. The operators are in ops/complex.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from burn.dialect.complexes.pair import Complex
from burn.importers.torch.node import BUILDERS, Builder, Node

COMPLEX: dict[str, Builder] = {}
"""An operator overload's name -> its builder for complex tensors."""


def complex_aten(*names: str) -> Callable[[Builder], Builder]:
    """Enters a builder that takes and gives `Complex`, or real values where torch does."""

    def register(builder: Builder) -> Builder:
        for name in names:
            if name in COMPLEX:
                raise ValueError(f"{name} has two builders for complex numbers")
            COMPLEX[name] = builder
        return builder

    return register


def is_complex(meta: Any) -> bool:
    if isinstance(meta, (list, tuple)):
        return any(map(is_complex, meta))
    return isinstance(meta, torch.Tensor) and meta.is_complex()


def computes_with_complex(node: fx.Node) -> bool:
    """True if an operand or a result is complex."""
    return is_complex(node.meta.get("val")) or any(is_complex(n.meta.get("val")) for n in node.all_input_nodes)


def real_meta(meta: Any) -> Any:
    """torch's view of a complex tensor as its view of a part."""
    if isinstance(meta, (list, tuple)):
        return [real_meta(m) for m in meta]
    return meta.real if is_complex(meta) else meta


class Part(Node):
    """A call as one of its parts sees it: real where it is complex."""

    @property
    def meta(self) -> Any:
        return real_meta(super().meta)

    def argument_meta(self, position: int) -> Any:
        return real_meta(super().argument_meta(position))


def part_of(value: Any, name: str) -> Any:
    """An argument's real or imaginary part; numbers that are no tensors go with both."""
    if isinstance(value, Complex):
        return getattr(value, name)
    return [part_of(v, name) for v in value] if isinstance(value, list) else value


def by_parts(op: str) -> Builder:
    """An operator's real builder for each part alone."""

    def build(node: Node, *args: Any, **keywords: Any) -> Any:
        call = Part(node.fx, node.importer, node.op)
        parts = [
            BUILDERS[op](call, *part_of(list(args), name), **{k: part_of(v, name) for k, v in keywords.items()})
            for name in ("real", "imag")
        ]
        if isinstance(parts[0], list):
            return [Complex(re, im) for re, im in zip(*parts, strict=True)]
        return Complex(*parts)

    return build
