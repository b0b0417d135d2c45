"""Arithmetic on quantised tensors, as the pass `integers` rewrites it."""
