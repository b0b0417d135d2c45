"""Prints kernels in Triton's language: the text of a readable Python module that Triton compiles.

`program.module_text` is the entry point; it prints every kernel of a fused program. Each of loops.py, contract.py and
attention.py prints one kind of kernel, with scalar expressions (scalars.py, functions.py). library.py has functions that
are copied into the text. Only running the text needs Triton.
"""
