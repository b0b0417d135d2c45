"""JAX programs: jaxprs become ops of a program. Enter at `Evaluator` (evaluate.py) and `traced` (tracing.py).

Functions that are compiled and called as JAX's are in burn/adapters/jax. Importing this package imports jax.
"""

from burn.importers.jax.equation import RULES, Equation, primitive
from burn.importers.jax.evaluate import Evaluator
from burn.importers.jax.tracing import Program, traced

__all__ = ["RULES", "Equation", "Evaluator", "Program", "primitive", "traced"]
