"""Linear algebra: factorisations, what they solve, and their derivatives. `burn.linalg` has the public names."""
