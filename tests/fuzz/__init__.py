"""Random differential tests: generated programs, against another implementation of their meaning.

`runner.py` runs seeds in worker processes. `python -m tests.fuzz.tensors --count 1000` is a sweep over programs of tensors; a
failing seed is printed with its program, cut down to what fails.
"""
