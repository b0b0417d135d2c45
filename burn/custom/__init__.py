"""Ops of one's own: `burn.custom_op`, and what its bodies are made of.

`op.py` is the public class, `definition.py` one version of an op, `signature.py` its types, `digest.py` the digest of its
functions. `native.py` compiles C, `host.py` calls Python, `launches.py` describes launches of Triton kernels.
`torch_library.py` and `jax_primitive.py` are the op in other frameworks.
"""

from burn.custom.launches import Launch, Pointer, scratch
from burn.custom.op import CustomOp, custom_op, find

__all__ = ["CustomOp", "Launch", "Pointer", "custom_op", "find", "scratch"]
