"""The environment variables that burn reads: `variable` is the only place that looks at them.

`VARIABLES` lists them with their meaning; the reference page `environment` is made of it. The native runtime reads
BURN_NUM_THREADS, BURN_COPY_FILES, BURN_GUARD, BURN_POISON, BURN_WGPU_BINDING, BURN_WGPU_CHECKS and BURN_WGPU_HALF itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

VARIABLES: Mapping[str, str] = {
    "BURN_AUTOTUNE": "the autotuning of compilations that do not name one: off (default), fast or full",
    "BURN_CACHE_DIR": "the folder of compiled programs; ~/.cache/burn by default, or burn in XDG_CACHE_HOME",
    "BURN_CACHE_SIZE": "the size limit of that folder: 500MB, 10GB (default); 0 turns the cache off",
    "BURN_COORDINATOR": "the address HOST:PORT at which the processes of a training meet, as `burn train` sets it",
    "BURN_COPY_FILES": "1 reads model files into memory, where they are memory-mapped otherwise",
    "BURN_CUDA_DRIVER": "the path of the CUDA driver library, if it is not in its usual place",
    "BURN_DEBUG_BOUNDS": "1 checks custom ops in C for writes outside of their tensors, as burn.debug.bounds() does",
    "BURN_DEBUG_NANS": "1 checks every program for NaN as burn.debug.nans() does, inf also for infinities",
    "BURN_DUMP_MLIR": "a file that the MLIR text of each compiled CPU program is written to",
    "BURN_ENGINE": "the engine of a mesh that names none, burn or xla, as `burn train` sets it",
    "BURN_GUARD": "end or start: that part of each buffer of a CPU program lies next to a page without access; "
    "on a GPU, a write behind one fails",
    "BURN_HIP_DRIVER": "the path of AMD's HIP library, if it is not in its usual place",
    "BURN_LOCAL_RANK": "the number of this process among those of its host, as `burn train` sets it: its GPU",
    "BURN_LOG": "compile prints each compilation to standard error: the function, the reason, the seconds",
    "BURN_NCCL": "the path of NCCL's library, if it is not that of a Python package",
    "BURN_NUM_THREADS": "the number of threads; the number of cores by default",
    "BURN_ONLY_SIGNED": "an Ed25519 public key (PEM): this process loads only packages that are signed with it",
    "BURN_OPTIMIZE": "speed (default), compile-time or none: CPU programs that compile faster and run slower",
    "BURN_POISON": "a byte (1: 255) that fills memory before each run, to find reads of uninitialised memory",
    "BURN_PROCESSES": "the number of processes of a training, as `burn train` sets it",
    "BURN_RANK": "the number of this process in a training, from 0, as `burn train` sets it",
    "BURN_TIMEOUT": "seconds after which a process of a training that does not come up or answer is lost; 60 by default",
    "BURN_TRACEBACK": "1 prints the Python traceback of an error that a command reports",
    "BURN_WGPU_BINDING": "bytes of the largest storage binding, to try a device of WebGPU with smaller limits than this one",
    "BURN_WGPU_CHECKS": "1 makes kernels of WebGPU check indices of memory, to find one that does not keep to its buffers",
    "BURN_WGPU_HALF": "bits makes kernels of WebGPU convert float16 by arithmetic on bits, without the device's instructions",
    "BURN_WGPU_LIBRARY": "the path of wgpu-native's library, if it is not that of the installed package wgpu",
    "AR": "the archiver for static libraries; ar by default",
    "CC": "the C compiler of burn-compile; ziglang's clang by default",
    "LOCAL_RANK": "as torchrun sets it: the number of this process on its host",
    "MASTER_ADDR": "as torchrun sets it: the host of rank 0; with MASTER_PORT, WORLD_SIZE and RANK",
    "MASTER_PORT": "as torchrun sets it: the port on that host",
    "OMPI_COMM_WORLD_LOCAL_RANK": "as Open MPI sets it: the number of this process on its host",
    "OMPI_COMM_WORLD_RANK": "as Open MPI sets it: the number of this process",
    "OMPI_COMM_WORLD_SIZE": "as Open MPI sets it: the number of processes",
    "RANK": "as torchrun sets it: the number of this process",
    "SLURM_LOCALID": "as Slurm sets it: the number of this process on its host",
    "SLURM_NTASKS": "as Slurm sets it: the number of processes",
    "SLURM_PROCID": "as Slurm sets it: the number of this process",
    "WORLD_SIZE": "as torchrun sets it: the number of processes",
    "XDG_CACHE_HOME": "the parent of the cache folder, if BURN_CACHE_DIR is not set",
}


def variable(name: str) -> str | None:
    """The value of one of `VARIABLES`; None if it is not set or empty."""
    if name not in VARIABLES:
        raise KeyError(name)
    return os.environ.get(name) or None
