"""Conversions between element types in Triton's language; the choices are those of codegen/cpu/convert.py."""

from __future__ import annotations

from burn.codegen.triton.functions import HALVES, triton_type
from burn.dialect.types import DTYPES

LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def convert(x: str, source: str, target: str, saturate: bool = True) -> str:
    """Raises CompileError for a type that Triton has none for."""
    to, kind, from_kind = triton_type(target), DTYPES[target].kind, DTYPES[source].kind
    triton_type(source)
    if source == target:
        return x
    if kind == "bool":
        return f"{x} != 0"
    if from_kind in ("float", "small") and kind in ("int", "uint"):
        wide = f"{x}.to(tl.float32)" if source in HALVES or from_kind == "small" else x
        if target == "uint64":
            return f"whole_unsigned({wide})"
        bits = 64 if DTYPES[target].bits == 64 or target == "uint32" else 32
        return f"whole({wide}, tl.int{bits}, {2.0 ** (bits - 1)!r}).to({to})"
    if target in LARGEST and saturate:
        return f"tl.clamp({x}.to(tl.float32), -{LARGEST[target]}, {LARGEST[target]}).to({to})"
    return f"{x}.to({to})"
