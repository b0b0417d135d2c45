"""The tensors of a checkpoint for each parameter of a module. Enter at `match`.

A parameter has candidates: its own name, and the rules of the layers around it for a layout (layouts.py). If a
file names its layout, the rules go first. Otherwise shapes decide. If they cannot (a square matrix may be transposed or not),
that is an error: a guess could silently load wrong numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from burn.dialect.weights import Weight
from burn.importers.weights.layouts import Part, needless_of, parts

OWN = "own"


@dataclass
class Slot:
    """A parameter, all its paths (more than one when it is shared), and the source of its elements.

    part: None if the tensors of no candidate exist. ambiguous: another part that would fit equally."""

    parameter: Any
    paths: list[str]
    candidates: list[Part] = field(default_factory=list)
    part: Part | None = None
    ambiguous: Part | None = None

    @property
    def name(self) -> str:
        return self.paths[0]


def slots(module: Any) -> list[Slot]:
    """Every parameter and buffer once, in the module's order."""
    known = {id(parameter): Slot(parameter, []) for _, parameter in module.named_parameters()}
    for path, inner in module.named_modules():
        for name, value in vars(inner).items():
            if id(value) in known:
                known[id(value)].paths.append(f"{path}.{name}" if path else name)
    return list(known.values())


def match(module: Any, tensors: Mapping[str, Weight], layout: str) -> list[Slot]:
    """The slots of a module with the parts that fill them. layout: "own", "torch", "burn", "flax", or "" when it is not known."""
    found = slots(module)
    by_path = {path: slot for slot in found for path in slot.paths}
    for kind in {"": ("torch",), OWN: ()}.get(layout, (layout,)):
        for path, layer in module.named_modules():
            for part in parts(layer, kind):
                bound = part.under(path)
                if bound.target in by_path:
                    by_path[bound.target].candidates.append(bound)
    for slot in found:
        own = [Part(path, (path,), (slot.parameter.shape,)) for path in slot.paths]
        slot.candidates = own + slot.candidates if not layout else slot.candidates + own
        there = [part for part in slot.candidates if all(source in tensors for source in part.sources)]
        fitting = [part for part in there if fits(part, tensors)] if not layout else there
        slot.part = next(iter(fitting or there), None)
        if slot.part is not None:
            first = slot.part
            others = [p for p in fitting if p.sources == first.sources and p.convert is not first.convert]
            slot.ambiguous = next(iter(others), None) if not layout else None
    return found


def fits(part: Part, tensors: Mapping[str, Weight]) -> bool:
    """True if the tensors have the required shapes."""
    return all(tensors[source].shape == shape for source, shape in zip(part.sources, part.shapes, strict=True))


def needless(module: Any) -> dict[str, str]:
    """Names of tensors that the module's layers have no use for, and why."""
    return {
        f"{path}.{name}" if path else name: why
        for path, layer in module.named_modules()
        for name, why in needless_of(layer).items()
    }
