"""Random programs of tensors, differentiated: first and second derivatives against torch in float64.

A program is text that both libraries run, where `m` is burn or torch (`program.py`, `sides.py`); `draft.py` draws one, with the
kinds of lines in `steps/`. `derivatives.py` differentiates it in each library, `case.py` compares, `cut.py` makes a failing
program short. Programs without a torch counterpart are compared with central differences. From the shell:
`python -m tests.fuzz.gradients --count 1000 --seed 7 -j 8`.
"""
