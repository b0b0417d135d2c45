"""JAX functions and modules in burn: `burn.from_jax`, and what burn.compile, burn.jit, burn.export and burn.grad do with them.

Enter at `JaxFunction`, a JAX function that takes and returns burn's tensors. Importing this package imports jax.
"""

from burn.adapters.jax.calling import CompiledJax, compile_function, program_of
from burn.adapters.jax.function import JaxFunction, as_function, wrapped
from burn.adapters.jax.jitting import JaxJit
from burn.adapters.jax.training import JaxModule, to_train

__all__ = [
    "CompiledJax", "JaxFunction", "JaxJit", "JaxModule", "as_function", "compile_function", "program_of", "to_train",
    "wrapped",
]  # fmt: skip
