"""Random programs of tensors against numpy: recorded lazily, jitted, compiled, and compiled for named sizes.

A program is Python text that numpy and burn both run (`program.py`). `draft.py` makes one, with the kinds of steps in
`steps/`. `numpy_side.py` and `burn_side.py` define `m`, and `case.py` runs and compares. From the shell:
`python -m tests.fuzz.tensors --count 1000 --seed 7 -j 8`.
"""
