"""Transforms of functions of tensors: `vmap` (mapping.py), and the Jacobians that are built on it (jacobians.py).

Both work on programs. A function is traced for one example into a region, whose ops become ops of all examples in the program
around it (region.py). Outside of traced functions that program is one of its own, and its ops are then recorded (program.py).
"""
