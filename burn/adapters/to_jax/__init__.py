"""burn's programs as functions of JAX: `burn.to_jax` (exporting.py) enters at `Lowered` and `function_of`.

A function calls `jax.lax` op by op, so `jax.jit`, `grad`, `vmap`, `shard_map` and `jax.export` treat it as any other. JAX is
imported when one is made.
"""

from __future__ import annotations

from burn.adapters.to_jax.function import Backward, Lowered, Runs, function_of

__all__ = ["Backward", "Lowered", "Runs", "function_of"]
