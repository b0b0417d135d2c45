"""XLA as the engine of a mesh, through JAX: one program for all devices, which XLA's partitioner divides.

- `engine`: arrays on a mesh and compiled programs
- `service`: the runtime of `jax.distributed` between processes
- `hlo`: the collectives of a compiled program
"""
