"""The outputs of a graph of Dynamo's: how each is made of the program's results and of the graph's inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from burn.adapters.torch.gpu import Result
from burn.adapters.torch.layouts import Layout, contiguous, memory_order
from burn.dialect import ops
from burn.dialect.compose import transpose
from burn.dialect.mlir import ir
from burn.dialect.types import PARTS, type_of
from burn.errors import ModelError, Problem
from burn.importers.torch.build import SUMMARY, as_output
from burn.importers.torch.dtypes import to_tensor

NUMBERS: dict[str, Callable[[Any], Any]] = {"SymInt": int, "SymFloat": float, "SymBool": bool}
"""torch's numbers of a graph -> what it takes for one when the graph runs."""

DTYPES_OF_NUMBERS = {"SymInt": torch.int64, "SymFloat": torch.float64, "SymBool": torch.bool}
"""The element types in which the program returns them."""


@dataclass(frozen=True)
class Made:
    """An output that the program computes: its index among the executable's outputs, its kind, its layout."""

    result: int
    kind: str  # "tensor"; "pairs", of complex numbers; or one of NUMBERS
    layout: Layout | None = None
    ordered: bool = False  # the array is the memory that the layout says, element after element
    device: torch.device | None = None  # that torch takes it to be on, where that is another than the program's

    @property
    def is_result(self) -> bool:
        """True if a GPU's result is allocated as torch takes the output to be, see `Result.layout`."""
        laid = self.layout is None or (self.ordered and self.layout.fixed is not None)
        return laid and self.kind == "tensor" and self.device is None

    def of(self, results: Sequence[Any], known: Sequence[Any]) -> Any:
        """The output, of the executable's results. known: the values that sizes are read from."""
        if self.kind in NUMBERS:
            return NUMBERS[self.kind](results[self.result])
        given = results[self.result]
        on_gpu = isinstance(given, torch.Tensor)
        tensor = given if on_gpu else to_tensor(given)
        if self.device is not None:
            tensor = tensor.to(self.device)
        tensor = torch.view_as_complex(tensor) if self.kind == "pairs" else tensor
        if self.layout is None:
            return tensor
        if not self.ordered:
            return self.layout.holding(tensor, known)
        return (
            tensor
            if on_gpu and self.kind == "tensor" and self.layout.is_of(tensor, known)
            else self.layout.over(tensor, known)
        )


@dataclass(frozen=True)
class View:
    """An output over the memory of one of the program's owners of shared memory, by number."""

    owner: int
    layout: Layout


@dataclass(frozen=True)
class InputView:
    """An output that is a view of an input, by number. layout: its offset is counted from that of the input."""

    index: int
    layout: Layout


@dataclass(frozen=True)
class Passed:
    """An output that is saved for the backward pass, and is the graph's input of that number."""

    index: int


@dataclass(frozen=True)
class SavedBlock:
    """An output that is the block of saved tensors, which comes after the results."""


@dataclass(frozen=True)
class InputPart:
    """An output in the memory of an input, by number, that torch writes after the call. Autograd would forbid that for a view, so
    the output is a tensor of its own."""

    index: int
    layout: Layout


@dataclass(frozen=True)
class Output:
    """An output of the program while it is built. order: the axes as they lie in memory, where torch says so."""

    value: ir.Value
    meta: Any
    kind: str
    lies: bool
    order: tuple[int, ...] | None

    @classmethod
    def of(cls, value: Any, meta: Any, lies: bool, order: tuple[int, ...] | None = None) -> Output:
        """lies: where torch says, unless that is contiguous anyway. order: of the axes in memory; torch's by default."""
        number = type(meta).__name__
        kind = number if number in NUMBERS else "pairs" if _is_complex(value) else "tensor"
        made = ops.view_as_real(value) if _is_complex(value) else as_output(value)
        dense = isinstance(meta, torch.Tensor) and not contiguous(meta)
        order = order or (memory_order(meta) if dense else None)
        lies = dense and (lies or order is not None)
        if order is not None:
            made = transpose(made, (*order, len(order)) if kind == "pairs" else order)
        return cls(made, meta, kind, lies, order)

    def result(self, layout: Layout | None, offset: int | None) -> Result:
        """offset: in the block of saved tensors."""
        dtype = DTYPES_OF_NUMBERS.get(self.kind) or (
            self.meta.dtype.to_real() if self.kind == "pairs" else self.meta.dtype
        )
        if not isinstance(self.meta, torch.Tensor) and self.kind not in NUMBERS:
            raise ModelError(SUMMARY, [Problem(f"an output is neither a tensor nor a number: {self.meta!r}")])
        if self.order is None or self.kind == "pairs":
            return Result(dtype, offset=offset)
        return Result(dtype, self.order, layout.fixed if layout is not None else None, offset)

    @property
    def source(self) -> Any:
        """torch's view of the array, whose sizes the program tells."""
        return self.meta if self.order is None else self.meta.permute(self.order)

    def placed(self, number: int, sources: Sequence[Any]) -> Made:
        layout = layout_of(self.meta, sources, number) if self.lies else None
        return Made(number, self.kind, layout, self.order is not None)


def layout_of(meta: torch.Tensor, sources: Sequence[Any], number: int, start: Any = 0) -> Layout:
    """Where torch takes a tensor to lie. start: what its offset is counted from. Raises ModelError."""
    try:
        return Layout(meta, sources, start)
    except KeyError as error:
        reason = f"it is a view, and where it lies depends on {error}, a size that the graph computes"
        raise ModelError(SUMMARY, [Problem(f"output {number}: {reason}", hint="return a .clone() of it")]) from None


def meta_of(value: Any) -> Any:
    """torch's view of a value of a graph."""
    return value.meta.get("val") if isinstance(value, fx.Node) else value


def _is_complex(value: Any) -> bool:
    return isinstance(value, ir.Value) and type_of(value).dtype in PARTS
