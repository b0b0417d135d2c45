"""StableHLO programs: text, bytecode, and artefacts of jax.export."""
