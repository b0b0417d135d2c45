"""The elementary functions of f32 in WGSL, printed from the same definitions as the CPU's (`codegen/cpu/elementary`).

WGSL's own functions may be inaccurate: sin has an error of 2^-11, and exp one that grows with its argument. A definition there
is a Python function of a symbolic operand. `Body` prints its operations as WGSL instead of MLIR. `library` has the results by
name. Functions that need doubles on the CPU (sin, cos, tan, pow) are in library.wgsl. The exponentials are there as well: on the
CPU they round by adding a large number, and compilers of shaders may reassociate such a sum (Mesa's do).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

from burn.codegen.cpu.elementary import inverse_trigonometric, logarithm
from burn.codegen.cpu.elementary.coefficients import ERF, ERFC
from burn.codegen.cpu.lanes import Lanes
from burn.codegen.host.emit import Function, Int, Value
from burn.codegen.wgsl.elements import f32, i32

Definition = Callable[..., Lanes]

DEFINITIONS: Mapping[str, tuple[int, Definition]] = {
    "log_f32": (1, logarithm.log),
    "log2_f32": (1, logarithm.log2),
    "log1p_f32": (1, logarithm.log1p),
    "asinh_f32": (1, logarithm.asinh),
    "acosh_f32": (1, logarithm.acosh),
    "atanh_f32": (1, logarithm.atanh),
    "asin_f32": (1, inverse_trigonometric.asin),
    "acos_f32": (1, inverse_trigonometric.acos),
    "atan_f32": (1, inverse_trigonometric.atan),
    "atan2_f32": (2, inverse_trigonometric.atan2),
    "erf_part": (1, lambda z: z.horner(ERF["f32"])),
    "erfc_part": (1, lambda a: a.horner(ERFC["f32"])),
}
"""By WGSL name: the number of operands, and the definition."""

_INFIX = {
    "arith.addf": "+", "arith.subf": "-", "arith.mulf": "*", "arith.divf": "/", "arith.addi": "+", "arith.subi": "-",
    "arith.muli": "*", "arith.andi": "&", "arith.ori": "|", "arith.xori": "^",
}  # fmt: skip
_CALLS = {
    "math.absf": "abs", "math.sqrt": "sqrt", "math.floor": "floor", "math.ceil": "ceil", "math.trunc": "trunc",
    "math.copysign": "with_sign",
}  # fmt: skip
_COMPARISONS = {
    "olt": "<", "ole": "<=", "ogt": ">", "oge": ">=", "oeq": "==", "une": "!=",
    "slt": "<", "sle": "<=", "sgt": ">", "sge": ">=", "eq": "==", "ne": "!=",
}  # fmt: skip
_CASTS = {"arith.bitcast": "bitcast<{to}>({x})", "arith.sitofp": "f32({x})", "arith.fptosi": "i32({x})"}
_INFINITY = f32(float("inf"))
_TYPES = {"f32": "f32", "i32": "i32", "i1": "bool"}


class Body(Function):
    """A function's body, whose values are f32, i32 and i1 and whose lines are WGSL. Equal texts share a name."""

    def __init__(self, arguments: int) -> None:
        super().__init__("", [])
        self.arguments = [Value(f"x{i}", "f32") for i in range(arguments)]

    def fresh(self, type_: str) -> Value:
        self._count += 1
        return Value(f"v{self._count}", type_)

    def raw(self, text: str, type_: str) -> Value:
        result = self.fresh(type_)
        self.line(f"let {result} = {text};")
        return result

    def const(self, value: int | float | bool | str, type_: str = "i64") -> Value:
        text = (
            f32(float(value))
            if type_ == "f32"
            else ("true" if value else "false")
            if type_ == "i1"
            else i32(int(value))
        )
        return Value(text, type_)

    def op(self, name: str, *operands: Value, type_: str | None = None, attr: str = "") -> Value:
        type_ = type_ or operands[0].type
        a, b = operands[0], operands[-1]
        if name == "arith.negf":
            text = f"-{a}"
        elif name in _CALLS:
            text = f"{_CALLS[name]}({', '.join(map(str, operands))})"
        elif name in ("arith.shli", "arith.shrsi"):
            text = f"{a} {'<<' if name == 'arith.shli' else '>>'} u32({b})"
        elif name == "arith.xori" and type_ == "i1":
            text = f"{a} != {b}"
        else:
            text = f"{a} {_INFIX[name]} {b}"
        return self.pure(text, type_)

    def mad(self, a: Value, b: Value, c: Value) -> Value:
        return self.pure(f"fma({a}, {b}, {c})", a.type)

    def cmp(self, predicate: str, a: Int, b: Int) -> Value:
        return self.pure(f"{a} {_COMPARISONS[predicate]} {b}", "i1")

    def cmpf(self, predicate: str, a: Value, b: Value) -> Value:
        if predicate == "uno":
            return self.pure(f"is_nan({a})" if a == b else f"is_nan({a}) || is_nan({b})", "i1")
        if str(b) == _INFINITY and predicate in ("oeq", "olt"):  # of no NaN: see `_printed`
            return self.pure(f"bitcast<u32>({a}) {'==' if predicate == 'oeq' else '!='} 0x7f800000u", "i1")
        return self.pure(f"{a} {_COMPARISONS[predicate]} {b}", "i1")

    def select(self, condition: Value, a: Value, b: Value) -> Value:
        return self.pure(f"select({b}, {a}, {condition})", a.type)

    def cast(self, op: str, value: Value, element: str) -> Value:
        if value.type == element:
            return value
        return self.pure(_CASTS[op].format(to=_TYPES[element], x=value), element)


@cache
def library() -> Mapping[str, str]:
    """The text of each function, by name."""
    return {name: _printed(name, count, definition) for name, (count, definition) in DEFINITIONS.items()}


def _printed(name: str, count: int, definition: Definition) -> str:
    """A function of NaN is NaN: compilers may assume that no operand of a comparison is one."""
    body = Body(count)
    result = definition(*(Lanes(body, x) for x in body.arguments))
    arguments = ", ".join(f"{x}: f32" for x in body.arguments)
    nan = " || ".join(f"is_nan({x})" for x in body.arguments)
    guard = f"  if ({nan}) {{ return {f32(float('nan'))}; }}"
    return "\n".join([f"fn {name}({arguments}) -> f32 {{", guard, *body.lines, f"  return {result.value};", "}"])
