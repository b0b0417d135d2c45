"""The array operations that jax.lax and StableHLO share, as functions of values: one file for each family.

A function takes and returns values of the program under construction (or recorded ones), with StableHLO's semantics: indices
are clamped, integers wrap, division by zero has a result. Sizes are burn's dims. The importers of both formats call these.
"""
