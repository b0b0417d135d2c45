"""burn's own kernels as the engine of a mesh: one process for each device, all with the same program on their own blocks.

- `engine`: tensors on the mesh and compiled programs
- `elements`: the blocks of a tensor that this process has
- `programs`: a program of the whole mesh as the program of one device
- `communicators`: shared memory between processes of a host, NCCL between GPUs
- `nccl`: where NCCL's library is
"""
