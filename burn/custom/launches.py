"""Launches of a user's Triton kernels, as the body of a custom op describes them: `Launch`, `Pointer`, `scratch`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from burn.dialect.dims import Dim
from burn.dialect.spec import spec
from burn.dialect.types import TensorType


@dataclass(frozen=True, eq=False)
class Pointer:
    """The memory of an operand or a result, dense and row-major: an argument of `Launch`.

    kind: "in", "out" or "scratch"; number: which."""

    type: TensorType
    kind: str = "scratch"
    number: int = 0

    @property
    def dtype(self) -> str:
        return self.type.dtype

    @property
    def shape(self) -> tuple[Dim, ...]:
        return self.type.shape

    @property
    def rank(self) -> int:
        return self.type.rank

    @property
    def elements(self) -> Dim:
        return self.type.elements


def scratch(type: TensorType | str) -> Pointer:
    """Memory that only the launches of this call use, "float32[n, 64]". Its elements are undefined at first."""
    return Pointer(spec(type))


@dataclass(frozen=True, eq=False)
class Launch:
    """One launch of a kernel (`@triton.jit`).

    grid: the number of programs, an axis; it may have named sizes. args: for the kernel's parameters that are no constants, in
    order: buffers, sizes, whole numbers (32 bits if they fit), floats (float32). constants: for its `tl.constexpr` parameters.
    warps, stages: as Triton's num_warps and num_stages. wide: sizes are int64 in the kernel; otherwise int32, and a run with a
    size that does not fit ends with an error."""

    kernel: Any
    grid: Dim
    args: Sequence[Any]
    constants: Mapping[str, Any] = field(default_factory=dict)
    warps: int = 4
    stages: int = 3
    wide: bool = False
