"""Elementary functions of f32 and f64 lanes, written out as arithmetic so that vectors stay vectors and nothing calls
libm.

A file is a family; each public function takes and returns `Lanes` of f32 or f64. The coefficients come from `fit.py`,
the error bounds are measured in `tests/codegen/test_math.py`. Enter at `burn.codegen.cpu.math`, whose table names
them all.

No function needs a fused multiply-add to be right (splits and reductions are exact without), but all are tuned for one.
"""
