"""Warp-specialised kernels for Hopper, printed in Gluon, Triton's language with explicit layouts and barriers."""
