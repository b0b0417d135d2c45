"""Symbolic integers: sizes of tensors and indices into them.

A `Dim` is a Python int or an `Expr`: a polynomial with integer coefficients over atoms. Atoms are named sizes
(`Symbol`), loop variables (`LoopVar`, 0 <= v < extent) and calls (`floordiv`, `mod`, `min`, `max`, `broadcast`) that do
not simplify. Expressions have one normal form, so that equality is structural; constant results are ints. Enter at
`symbol`, `parse`, the Python operators, and `floordiv`/`mod`/`dim_min`/`dim_max`/`dim_broadcast`.

- `expression`: atoms and polynomials, with addition and multiplication
- `bounds`: proofs about expressions for all sizes
- `division`: quotients, remainders, extremes, simplified by such proofs
- `walk`: substituting, evaluating, looking inside
- `text`: reading what is printed
"""

from burn.dialect.dims.bounds import RELATIONS, at_most, decide, non_negative
from burn.dialect.dims.division import (
    ceildiv,
    dim_broadcast,
    dim_max,
    dim_min,
    exact_div,
    factor,
    floordiv,
    mod,
)
from burn.dialect.dims.expression import (
    Atom,
    Call,
    Dim,
    Expr,
    LoopVar,
    Monomial,
    Symbol,
    plain,
    product,
    symbol,
    terms,
)
from burn.dialect.dims.text import parse
from burn.dialect.dims.walk import TYPICAL, atoms, coefficient, estimate, evaluate, interpret, substitute, symbols

__all__ = [
    "RELATIONS", "TYPICAL", "Atom", "Call", "Dim", "Expr", "LoopVar", "Monomial", "Symbol",
    "at_most", "atoms", "ceildiv", "coefficient", "decide", "dim_broadcast", "dim_max", "dim_min", "estimate", "evaluate",
    "exact_div", "factor", "floordiv", "interpret", "mod", "non_negative", "parse", "plain", "product", "substitute", "symbol",
    "symbols", "terms",
]  # fmt: skip
