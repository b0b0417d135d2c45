"""Random programs of tensors (`tests.fuzz.tensors`), compiled with drawn options and called in a drawn form.

Options are autotuning, a target, costs, threads, exact sums, precisions and the level of optimization. Operands are strided,
reversed, read-only, unaligned, shared between inputs, of other libraries, donated, or empty.
"""
