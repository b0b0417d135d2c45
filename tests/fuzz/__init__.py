"""Random differential tests: programs that nobody wrote, against another implementation of what they mean.

`runner.py` runs seeds in worker processes. `python -m tests.fuzz.tensors --count 1000` is a sweep over programs of tensors; a
failing seed is printed with its program, cut down to what fails.
"""
