"""Reductions inside an invocation, and across those of a workgroup through its memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from burn.codegen.wgsl.code import Code
from burn.codegen.wgsl.elements import constant, register
from burn.codegen.wgsl.functions import apply
from burn.codegen.wgsl.heuristics import LANES
from burn.dialect.types import DTYPES
from burn.kernels.body import REDUCERS, Reduction, identity


@contextmanager
def across_lanes(code: Code) -> Iterator[None]:
    """Combines a value of every lane in workgroup memory by a tree; lane 0 then has the result. Inside: the lines by which lane
    `lane` takes the value of lane `lane + half`. All lanes must get here, and have written their values."""
    code.line("workgroupBarrier();")
    with code.block(f"for (var half = {LANES // 2}; half > 0; half = half / 2)"):
        with code.block("if (lane < half)"):
            yield
        code.line("workgroupBarrier();")


class Total:
    """A reduction in progress: a variable, and for argmax and argmin a second one with the index (-1: none)."""

    def __init__(self, code: Code, reduction: Reduction) -> None:
        self.code, self.reduction = code, reduction
        self.type = register(reduction.body.dtype if self.is_arg else reduction.dtype)
        start = "" if self.is_arg else constant(reduction.dtype, identity(reduction.kind, reduction.dtype))
        self.name = code.variable(self.type, start, "total")
        self.index = code.variable("i32", "-1", "index") if self.is_arg else ""

    @property
    def is_arg(self) -> bool:
        return self.reduction.kind.startswith("arg")

    def take(self, value: str, index: str) -> None:
        """Combines with an element."""
        if not self.is_arg:
            self.code.line(f"{self.name} = {self._combined(self.name, value)};")
            return
        with self.code.block(f"if ({self._beats(value, index)})"):
            self.code.line(f"{self.name} = {value};")
            self.code.line(f"{self.index} = {index};")

    def _combined(self, a: str, b: str) -> str:
        return apply(REDUCERS[self.reduction.kind], self.reduction.dtype, a, b)

    def _beats(self, value: str, index: str) -> str:
        """NaN wins; ties go to the first element, or the last."""
        dtype = self.reduction.body.dtype
        first = "gt" if self.reduction.kind == "argmax" else "lt"
        better, equal = apply(first, dtype, value, self.name), apply("eq", dtype, value, self.name)
        if DTYPES[dtype].kind == "float":
            ours, theirs = f"is_nan({self.name})", f"is_nan({value})"
            better = f"(({theirs} && !{ours}) || (!{ours} && {better}))"
            equal = f"({equal} || ({ours} && {theirs}))"
        order = ">" if self.reduction.last else "<"
        return f"{index} >= 0 && ({self.index} < 0 || {better} || ({equal} && {index} {order} {self.index}))"

    @property
    def result(self) -> str:
        """argmax and argmin give int64."""
        return self.code.let(f"long_of_i32({self.index})", "r") if self.is_arg else self.name

    # ---- across a workgroup ----------------------------------------------------------------------------------------------
    @property
    def _part(self) -> str:
        """The workgroup memory for partial results, one array for all totals of a type."""
        return f"parts_{self.type.split('<')[0]}"

    @property
    def shared(self) -> tuple[str, ...]:
        """Declarations of the workgroup memory."""
        declared = f"var<workgroup> {self._part}: array<{self.type}, {LANES}>;"
        return (declared, f"var<workgroup> places: array<i32, {LANES}>;") if self.is_arg else (declared,)

    def across(self) -> None:
        """Combines the totals of all lanes; every lane then has the result. All lanes must get here. Afterwards other totals may
        use the same memory."""
        code, part = self.code, self._part
        code.line(f"{part}[lane] = {self.name};")
        if self.is_arg:
            code.line(f"places[lane] = {self.index};")
        with across_lanes(code):
            other = code.let(f"{part}[lane + half]")
            self.take(other, code.let("places[lane + half]") if self.is_arg else "")
            code.line(f"{part}[lane] = {self.name};")
            if self.is_arg:
                code.line(f"places[lane] = {self.index};")
        code.line(f"{self.name} = {part}[0];")
        if self.is_arg:
            code.line(f"{self.index} = places[0];")
        code.line("workgroupBarrier();")
