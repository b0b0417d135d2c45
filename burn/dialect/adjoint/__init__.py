"""Reverse differentiation: what an op's result owes to each of its operands. Enter at `gradients`.

    y = exp(x); z = y * y                 gradients([z], [1], [x]):  z̄ = 1,  ȳ = z̄ * y + z̄ * y,  x̄ = ȳ * y

The *cotangent* v̄ of a value is the derivative of what is differentiated with respect to it. A rule says what cotangents an op's
operands have, given those of its results; it is written with the dialect's own builders, so that what it builds has symbolic
sizes, runs everywhere, and can be differentiated again. The rules are tables by op name (`rules.py` holds them together):
`pointwise.py`, `shape.py`, `reduction.py`, `contraction.py`, `indexing.py`, `composite.py`, `control.py`. A composite without a
rule is taken apart. `reverse.py` walks from the results to the operands, over ops that are built and over ops that are
recorded (`dialect/deferred.py`) alike. Values that are no floats have no cotangents.

Source: Griewank and Walther, Evaluating Derivatives (2008), chapter 3.
"""

from burn.dialect.adjoint.reverse import gradients

__all__ = ["gradients"]
