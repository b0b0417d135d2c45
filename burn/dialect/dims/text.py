"""Parses expressions from their printed form."""

from __future__ import annotations

import ast
from functools import lru_cache

from burn.dialect.dims.division import dim_broadcast, dim_max, dim_min, floordiv, mod
from burn.dialect.dims.expression import Dim, symbol

_CALLS = {"min": dim_min, "max": dim_max, "broadcast": dim_broadcast}


@lru_cache(maxsize=1 << 14)
def parse(text: str) -> Dim:
    """Reads what `str` writes. Raises ValueError for anything else."""
    try:
        return _from_ast(ast.parse(text.strip(), mode="eval").body)
    except (SyntaxError, RecursionError, ZeroDivisionError) as error:
        raise ValueError(f"not a size: {text!r}") from error


def _from_ast(node: ast.expr) -> Dim:
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return value
        case ast.Name(id=name):
            return symbol(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _from_ast(operand) * -1
        case ast.BinOp(left=left, op=op, right=right):
            a, b = _from_ast(left), _from_ast(right)
            match op:
                case ast.Add():
                    return a + b
                case ast.Sub():
                    return a - b
                case ast.Mult():
                    return a * b
                case ast.FloorDiv():
                    return floordiv(a, b)
                case ast.Mod():
                    return mod(a, b)
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as args, keywords=[]) if name in _CALLS:
            return _CALLS[name](*(_from_ast(a) for a in args))
    raise ValueError(f"not a size: {ast.unparse(node)!r}")
