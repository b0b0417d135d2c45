"""Programs as StableHLO: a table of emitters, one function for each primitive op, over a builder of StableHLO's ops.

There are two builders. `text.TextBuilder` writes StableHLO text for sizes that are numbers, without jaxlib. The builder of
`burn.adapters.to_jax` calls the functions of `jax.lax`, which are StableHLO's ops one by one, so that JAX's transformations and
its symbolic sizes apply. Enter at `lowering.text_of`, or at `emitter.Emission` with a builder.
"""
