"""Prints kernels in Triton's language: the text of a readable Python module that Triton compiles.

Enter at `program.module_text`, which prints every kernel of a fused program. loops.py, contract.py and attention.py
print one kind of kernel each, using scalar expressions (scalars.py, functions.py). library.py holds functions that are
copied into the text. Triton itself is needed only to run the text.
"""
