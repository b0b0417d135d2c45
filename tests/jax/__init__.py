"""JAX programs in burn. The sweep over functions of jax.lax, jax.numpy and others is in sweep.py; needs JAX."""
