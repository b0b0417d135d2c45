"""The reference device: programs run by the interpreter of kernels (`burn.kernels.interpret`), element by element.

It is slow, clear, and independent of LLVM, of Triton and of the C runtime's library: a second opinion on the other back ends.
Its pipeline only decomposes and fuses, so it also checks the passes that others run.

`burn/kernels/interpret.py` and `numbers.py` compute all values of kernels on Python numbers and numpy scalars, and form sums in
higher precision. Elements lie in numpy arrays, but no array operation of numpy computes a result, and no other library does.
"""
