"""Derivatives at special points: zeros, ties, bounds, saturation, infinities, NaN, nothing at all. Enter at `test_points.py`."""
