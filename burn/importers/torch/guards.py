"""Assumptions of torch's trace about sizes, as checks of the program. Enter at `add_checks`.

A module with a condition such as `x.shape[0] > 4` is traced along the branch of its example. torch records a guard, which holds
for sizes that take the same branch. A program that is traced in this process has its guards as expressions. One from a file has
them as text, which is parsed here and never executed. Limits that `torch.export.Dim` sets are also guards. Guards on memory
(strides, offsets) have no meaning for a program of values and are dropped.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import sympy
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.utils._sympy.functions import (
    CeilToInt,
    FloorDiv,
    FloorToInt,
    IntTrueDiv,
    Mod,
    PythonMod,
    ToFloat,
    TruncToInt,
)
from torch.utils._sympy.value_ranges import ValueRanges

from burn.dialect.compose import check_size
from burn.errors import ModelError, Problem, TypeMismatch
from burn.importers.torch.paths import paths_of
from burn.importers.torch.questions import Answer
from burn.importers.torch.sizes import RELATIONS, Sizes, Unrepresentable, expression_of, linear

Inputs = Mapping[tuple[str, ...], Any]
"""The keys that lead to an input, ("x", "0") -> torch's view of it."""
SAYS = "the module was written down for sizes of which this holds"
LEAST = 2
"""torch takes sizes of 0 and 1 for fixed, so that every size that varies has at least this lower limit: it says nothing."""
MOST = 1 << 62
"""Limits from here on are none."""

MAX_TEXT = 4096
"""The characters that a condition may have."""


class MemoryLayout(Exception):
    """A guard is about strides or offsets."""


def add_checks(
    exported: ExportedProgram, original: ExportedProgram, sizes: Sizes, answers: Sequence[Answer] = ()
) -> None:
    """Builds the checks at the insertion point. Raises ModelError for sizes that cannot satisfy them, and for conditions
    without an expression. `original`: the program before decomposition. `answers`: decisions that its module made."""
    problems = []
    torchs = (c for c in (*_guards(exported), *read_guards(original), *_limits(exported)) if not _takes_for_fixed(c))
    for condition in dict.fromkeys((*_asked(exported, answers), *torchs)):
        if not all(s in sizes.symbols for s in condition.free_symbols):
            continue  # strides; or a size that is computed, whose limits the graph itself asserts
        try:
            check(condition, sizes)
        except Unrepresentable as error:
            problems.append(Problem(f"the module depends on whether {condition}, which cannot be checked: {error}"))
        except TypeMismatch as error:
            problems += error.problems
    if problems:
        raise ModelError("the module was written down for other sizes", problems)


def _takes_for_fixed(condition: Any) -> bool:
    """True if a condition only says that a size is neither 0 nor 1, which torch assumes of all varying sizes, or follows from
    that."""
    if not isinstance(condition, sympy.core.relational.Relational) or condition.has(sympy.Mod, PythonMod, Mod):
        return False  # a remainder is no size
    size, constant = (condition.lhs, condition.rhs) if condition.rhs.is_Integer else (condition.rhs, condition.lhs)
    factor = sympy.expand(size).as_content_primitive()[0]  # strides are sizes by a number
    if not isinstance(constant, sympy.Integer) or not isinstance(factor, sympy.Integer):
        return False
    number, rest = divmod(int(constant), int(factor))
    if rest:
        return False
    if isinstance(condition, sympy.Ne):
        return 0 <= number < LEAST
    greater = isinstance(condition, (sympy.Ge, sympy.Gt)) == condition.rhs.is_Integer  # the size is the larger side
    strict = isinstance(condition, (sympy.Gt, sympy.Lt))
    return greater and number + strict <= LEAST


def check(condition: Any, sizes: Sizes, says: str = SAYS) -> None:
    """A condition over sizes as checks, with the reason for an error. Raises Unrepresentable, TypeMismatch where it is known
    not to hold."""
    if isinstance(condition, sympy.And):
        for part in condition.args:
            check(part, sizes, says)
    elif type(condition) in RELATIONS:
        check_size(sizes.dim(condition.lhs), RELATIONS[type(condition)], sizes.dim(condition.rhs), says)
    else:
        check_size(sizes.truth(condition), "==", 1, f"{says}: {condition}" if says == SAYS else says)


def take_sizes_for_general(exported: ExportedProgram) -> None:
    """Lets torch take every size that varies for larger than 1, as it does while it traces a module. A program from a file has
    lost that, and taking its operators apart would ask of every size whether it is 1."""
    for environment in _environments(exported):
        _replace_derived(environment)
        for symbol, limits in environment.var_to_range.items():
            if limits.lower < LEAST <= limits.upper and symbol in environment.backed_var_to_val:
                environment.var_to_range[symbol] = ValueRanges(LEAST, limits.upper)


def _replace_derived(environment: Any) -> None:
    """Gives symbols the example values that torch reads from a file for sizes derived from them (`4*s6` is 8: s6 is 2). The
    limits of derived sizes follow from those of their symbols."""
    for derived in [key for key in environment.var_to_range if not isinstance(key, sympy.Symbol)]:
        del environment.var_to_range[derived]
    values = environment.backed_var_to_val
    for derived, example in [item for item in values.items() if not isinstance(item[0], sympy.Symbol)]:
        del values[derived]
        free = [symbol for symbol in derived.free_symbols if symbol not in values]
        if len(free) != 1 or (found := linear(derived.subs(values), free[0])) is None:
            continue
        factor, rest = found
        if factor and rest.is_Integer and (example - rest) % factor == 0:
            values[free[0]] = (example - rest) // factor


# ---- where conditions come from -----------------------------------------------------------------------------------------
def _guards(exported: ExportedProgram) -> Iterator[Any]:
    """Those of a program that was traced in this process."""
    for environment in _environments(exported):
        yield from (guard.expr for guard in environment.guards)


def _asked(exported: ExportedProgram, answers: Sequence[Answer]) -> Iterator[Any]:
    """The module's own decisions, with torch's replacements of sizes applied."""
    for environment in _environments(exported):
        for answer in answers:
            sides = (environment.replace(sympy.sympify(side)) for side in (answer.left, answer.right))
            yield answer.relation(*sides, evaluate=False)


def _environments(exported: ExportedProgram) -> Iterator[Any]:
    """torch's knowledge of a program's sizes; there is one, or none where all are fixed."""
    for node in exported.graph.nodes:
        mode = getattr(node.meta.get("val"), "fake_mode", None)
        if node.op == "placeholder" and mode is not None and mode.shape_env is not None:
            yield mode.shape_env
            return


def _limits(exported: ExportedProgram) -> Iterator[Any]:
    for symbol, limits in exported.range_constraints.items():
        if limits.lower > LEAST:
            yield sympy.Ge(symbol, limits.lower)
        if limits.upper.is_finite and limits.upper < MOST:
            yield sympy.Le(symbol, limits.upper)


def read_guards(exported: ExportedProgram) -> Iterator[Any]:
    """Those that are written down with the program. Raises ModelError for text that is no condition."""
    table: Inputs | None = None
    for text in exported._guards_code:
        table = _inputs(exported) if table is None else table
        try:
            yield read_guard(text, table)
        except MemoryLayout:
            continue


# ---- guards as text -----------------------------------------------------------------------------------------------------
def read_guard(text: str, inputs: Inputs) -> Any:
    """A condition such as "L['x'].size()[0] % 2 == 0" over inputs by path. Raises ModelError for what is no arithmetic of
    sizes, and MemoryLayout."""
    try:
        if len(text) > MAX_TEXT:
            raise ValueError("it is too long")
        return _condition(ast.parse(text.strip(), mode="eval").body, inputs)
    except (SyntaxError, ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        reason = str(error) or type(error).__name__
        raise ModelError("a condition on the program's sizes cannot be read", [f"{text[:200]}: {reason}"]) from None


def _condition(node: ast.expr, inputs: Inputs) -> Any:
    if isinstance(node, ast.BoolOp):
        return (sympy.And if isinstance(node.op, ast.And) else sympy.Or)(*(_condition(v, inputs) for v in node.values))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return sympy.Not(_condition(node.operand, inputs))
    if isinstance(node, ast.Compare):
        values = [_number(v, inputs) for v in (node.left, *node.comparators)]
        return sympy.And(*(COMPARE[type(o)](*p) for o, p in zip(node.ops, pairwise(values), strict=True)))
    raise ValueError(f"{ast.unparse(node)} is no condition")


def _number(node: ast.expr, inputs: Inputs) -> Any:
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return sympy.sympify(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand, inputs)
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        return ARITHMETIC[type(node.op)](_number(node.left, inputs), _number(node.right, inputs))
    if isinstance(node, ast.Call) and (name := ast.unparse(node.func)) in CALLS and not node.keywords:
        return CALLS[name](*(_number(a, inputs) for a in node.args))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "storage_offset":
        raise MemoryLayout
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Call):
        call = node.value.func
        if isinstance(call, ast.Attribute) and call.attr == "stride":
            raise MemoryLayout
        if isinstance(call, ast.Attribute) and call.attr == "size" and isinstance(node.slice, ast.Constant):
            return expression_of(inputs[_path(call.value)].shape[node.slice.value])
    return expression_of(inputs[_path(node)])


COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: sympy.Eq,
    ast.NotEq: sympy.Ne,
    ast.Lt: sympy.Lt,
    ast.LtE: sympy.Le,
    ast.Gt: sympy.Gt,
    ast.GtE: sympy.Ge,
}
ARITHMETIC: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: FloorDiv,
    ast.Mod: PythonMod,
    ast.Div: IntTrueDiv,
}
CALLS: dict[str, Callable[..., Any]] = {
    "min": sympy.Min,
    "max": sympy.Max,
    "Min": sympy.Min,
    "Max": sympy.Max,
    "FloorDiv": FloorDiv,
    "Mod": PythonMod,
    "PythonMod": PythonMod,
    "torch.sym_float": ToFloat,
    "float": ToFloat,
    "math.floor": FloorToInt,
    "math.trunc": TruncToInt,
    "math.ceil": CeilToInt,
}


def _inputs(exported: ExportedProgram) -> dict[tuple[str, ...], Any]:
    """The keys that lead to an input -> torch's view of it."""
    spec = exported.call_spec.in_spec
    if spec is None:
        return {}
    args, _ = spec.children()
    signature = exported.module_call_graph[0].signature
    names = getattr(signature, "forward_arg_names", None) or ()
    metas = {n.name: n.meta.get("val") for n in exported.graph.nodes if n.op == "placeholder"}
    specs = exported.graph_signature.input_specs
    values = [metas.get(getattr(s.arg, "name", "")) for s in specs if s.kind is InputKind.USER_INPUT]
    found: dict[tuple[str, ...], Any] = {}
    # ("0", "1", ...): the second by position; ("1", "scale", ...): by name
    for (kind, *keys), value in zip(paths_of(spec), values, strict=False):
        by_position = kind == "0" and int(keys[0]) < min(len(names), args.num_children)
        name = names[int(keys[0])] if by_position else keys[0]
        found[(name, *keys[1:])] = value
        if by_position and (one := re.fullmatch(r"(.+)_(\d+)", name)):  # of *args, which a condition calls L['args'][0]
            found.setdefault((one[1], one[2], *keys[1:]), value)
    return found


def _path(node: ast.expr) -> tuple[str, ...]:
    """L['x'][0] -> ("x", "0")."""
    keys: list[str] = []
    while isinstance(node, (ast.Subscript, ast.Attribute)):
        keys.append(node.attr if isinstance(node, ast.Attribute) else str(ast.literal_eval(node.slice)))
        node = node.value
    if not isinstance(node, ast.Name) or node.id != "L":
        raise ValueError(f"{ast.unparse(node)} is no input")
    return tuple(reversed(keys))
