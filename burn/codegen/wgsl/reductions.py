"""Reductions inside an invocation, and across those of a workgroup through its memory."""

from __future__ import annotations

from burn.codegen.wgsl.code import Code
from burn.codegen.wgsl.elements import constant, register
from burn.codegen.wgsl.functions import apply
from burn.dialect.types import DTYPES
from burn.kernels.body import REDUCERS, Reduction, identity


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
    def shared(self, number: int, lanes: int) -> list[str]:
        """Declarations of the workgroup memory."""
        declared = [f"var<workgroup> part{number}: array<{self.type}, {lanes}>;"]
        return declared + [f"var<workgroup> place{number}: array<i32, {lanes}>;"] * self.is_arg

    def across(self, number: int, lanes: int) -> None:
        """Combines the totals of all lanes; every lane then has the result. All lanes must get here."""
        code, part, index = self.code, f"part{number}", f"place{number}"
        code.line(f"{part}[lane] = {self.name};")
        if self.is_arg:
            code.line(f"{index}[lane] = {self.index};")
        code.line("workgroupBarrier();")
        with code.block(f"for (var half = {lanes // 2}; half > 0; half = half / 2)"):
            with code.block("if (lane < half)"):
                other = code.let(f"{part}[lane + half]")
                self.take(other, code.let(f"{index}[lane + half]") if self.is_arg else "")
                code.line(f"{part}[lane] = {self.name};")
                if self.is_arg:
                    code.line(f"{index}[lane] = {self.index};")
            code.line("workgroupBarrier();")
        code.line(f"{self.name} = {part}[0];")
        if self.is_arg:
            code.line(f"{self.index} = {index}[0];")
        code.line("workgroupBarrier();")
