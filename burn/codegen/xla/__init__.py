"""The device "xla": programs as StableHLO modules, which XLA compiles and runs on whatever device JAX has.

A program is one module for each combination of sizes. It is cut only where a size, a branch or a list depends on data: there the
host reads a value and goes on with another module (`plan`). Modules are compiled when sizes are first seen.

- `backend`, `printer`: the pipeline, which only decomposes and simplifies; the code is the program as text
- `plan`: cuts a block of ops into segments, which become modules, and ops that the host runs
- `client`: compiling and running a module with XLA's PJRT client; no other file imports jax
- `modules`: the module of a segment for given sizes
- `machine`, `host`: one run; the ops that the host runs
- `loader`: runs artefacts
"""
