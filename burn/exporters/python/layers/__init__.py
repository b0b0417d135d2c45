"""Ops and their constants become layers: `conv` with its weight, and the addition of a bias, is an `nn.Conv2d`.

A file for each family of layers, found by the rules in it; enter at `recognise.py`.
"""
