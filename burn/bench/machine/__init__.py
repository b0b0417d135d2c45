"""Measures the costs of this machine's CPU (burn/codegen/cpu/costs.py) with small programs that burn compiles.

`measure.measure` is the entry point. `direct.py` computes costs from the times of programs; `search.py` compares programs
that were compiled with several values of a cost. `programs.py` has the programs, and `clock.py` times them. `instructions.py`
counts cycles of instructions for CPUs that are not here.
"""
