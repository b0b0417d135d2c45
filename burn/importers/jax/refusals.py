"""Reasons why a primitive has no rule, and what to do instead."""

from __future__ import annotations

_CALLBACK = "a compiled program cannot call Python: leave the callback out"
_DEVICES = "it communicates between devices: import the function of one device"
_LAPACK = "burn.linalg does not have this decomposition"
_REF = "mutable arrays are not supported: return the new array instead"

REASONS: dict[str, str] = {
    **dict.fromkeys(("pure_callback", "io_callback", "debug_callback"), _CALLBACK),
    "debug_print": "leave jax.debug.print out; burn.debug.print shows tensors of burn's functions",
    "ffi_call": "foreign functions are XLA's: write it in jax.numpy",
    "check": "leave jax.experimental.checkify out",
    "infeed": _CALLBACK,
    "outfeed": _CALLBACK,
    **dict.fromkeys(
        (
            "all_gather", "all_to_all", "axis_index", "ppermute", "psum_invariant",
            "ragged_all_to_all", "reduce_scatter", "shard_map", "pbroadcast", "pvary",
        ),
        _DEVICES,
    ),
    **dict.fromkeys(("get", "swap", "addupdate", "run_state", "new_ref", "freeze", "empty_ref"), _REF),
    "schur": _LAPACK,
    "rng_uniform": "its numbers are not reproducible: draw with jax.random",
    "custom_partitioning": _DEVICES,
    "call_exported": "burn.load reads jax.export's artefacts",
    "pallas_call": "kernels of Pallas are not supported: call the function without them",
}  # fmt: skip
