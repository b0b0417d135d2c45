"""Complex numbers in the dialect: element types complex64 and complex128, lowered to pairs of real tensors.

- `ops.py`: ops between real and complex tensors
- `pair.py`, `functions.py`: pairs of real tensors, their arithmetic and functions
- `rules.py`: the table of rules, one for each op that takes or gives complex tensors
- `lowering.py`: applies them to a program, and to a single op for its derivative

Differentiation applies the rule first, so a gradient is that of the pair: (dL/dx) + i (dL/dy) for z = x + iy and a real L.
That is PyTorch's convention. JAX's `grad` returns the conjugate.
"""
