"""The `burn` dialect: ops, element types and symbolic sizes.

`op.py` defines op classes; the other files define the ops by family. `ops` has one builder function for each op.
"""

from __future__ import annotations

FAMILIES = (
    "pointwise",
    "shape",
    "reduction",
    "indexing",
    "blocks",
    "contraction",
    "packed",
    "segments",
    "library",
    "control",
    "activation",
    "normalization",
    "convolution",
    "tiles",
    "axis_tiles",
    "attention",
    "rotary",
    "attention_gradient",
    "dropout",
    "recurrent",
    "resize",
    "quantize",
    "loss",
    "trees",
    "signal",
    "random",
    "strings",
    "sequence",
    "image",
    "debug",
    "collective",
    "custom",
    "adjoint.marks",
    "complexes.ops",
    "adjoint.apart",
)
"""The modules that define ops, primitives first."""


def load_dialect() -> None:
    """Registers every op with the current context."""
    from importlib import import_module

    from burn.dialect.op import Burn

    for family in FAMILIES:
        import_module(f"burn.dialect.{family}")
    Burn.load()  # type: ignore[attr-defined]  # made by the bindings' base class
