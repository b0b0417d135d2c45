"""Warp-specialised kernels for Hopper, printed in Gluon, Triton's language of layouts and barriers.

warp_specialised    what all of them share
matmul              persistent matmul in half precision
attention           attention over many keys
attention_gradient  gradients of keys and values
matmul_library      functions in Gluon that generated modules copy; never imported
attention_library   the same for attention
"""
