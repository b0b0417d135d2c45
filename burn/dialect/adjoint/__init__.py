"""Reverse-mode differentiation. Enter at `gradients`.

    y = exp(x); z = y * y                 gradients([z], [1], [x]):  z̄ = 1,  ȳ = z̄ * y + z̄ * y,  x̄ = ȳ * y

The *cotangent* v̄ of a value is the derivative of the differentiated output with respect to it. A rule computes the cotangents of
an op's operands from those of its results. It uses the dialect's builders, so its ops support symbolic sizes, run on every
device, and can be differentiated again. The rules are tables by op name (`rules.py` holds them together):
`pointwise.py`, `shape.py`, `reduction.py`, `contraction.py`, `indexing.py`, `composite.py`, `control.py`. A composite without a
rule is decomposed. `reverse.py` walks from the results to the operands, over built ops and over recorded ops
(`dialect/deferred.py`). Only floats have cotangents.

Source: Griewank and Walther, Evaluating Derivatives (2008), chapter 3.
"""

from burn.dialect.adjoint.reverse import gradients

__all__ = ["gradients"]
