"""Prints kernels in Triton's language: the text of a Python module that people can read and Triton compiles.

Enter at `program.module_text`, which prints every kernel of a fused program. loops.py, contract.py and attention.py print one
kind of kernel each, out of scalar expressions (scalars.py, functions.py); library.py holds the functions that the text brings
along. Triton itself is needed only by who runs the text.
"""
