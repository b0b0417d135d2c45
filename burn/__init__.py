"""burn: a graph compiler and model importer on MLIR.

    model = burn.load("model.onnx")       # compiled for this machine, kept in a cache on disk
    y = model(x)                          # numpy in, numpy out

`load` and `compile` give executables; `Tensor`, its methods as functions (`burn.exp(x)`, burn/tensors/functions.py), `ops` and
`nn` are what models are written in. Everything is imported when it is first asked for, so that a program that runs a cached
model pays for the runtime alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from burn import evaluation

if TYPE_CHECKING:
    from burn import (
        array_api,
        custom,
        data,
        debug,
        distributed,
        errors,
        fft,
        generation,
        linalg,
        nn,
        ops,
        optim,
        random,
        train,
    )
    from burn.compiled import compile, from_jax
    from burn.custom import custom_op
    from burn.dialect.spec import spec
    from burn.distributed.mesh import Mesh
    from burn.errors import BurnError, CompileError, DataError, InputError, ModelError, RunError, TypeMismatch
    from burn.exporting import export, to_jax
    from burn.fft import blackman_window, hamming_window, hann_window
    from burn.generation import generate
    from burn.jitted import jit
    from burn.lazy import explain
    from burn.loading import compile_count, load, set_num_threads
    from burn.random import manual_seed
    from burn.runtime import Executable
    from burn.tensors import Dim, Tensor, constant, from_numpy, tensor
    from burn.tensors.associative import associative_scan
    from burn.tensors.control import check_size, cond, fori_loop, loop, read_dim, scan, while_loop
    from burn.tensors.functions import *  # noqa: F403
    from burn.tensors.gradients import checkpoint, custom_vjp, grad, jvp, stop_gradient, value_and_grad, vjp
    from burn.tensors.linear import custom_jvp, linearize
    from burn.transforms.jacobians import hessian, jacfwd, jacrev
    from burn.transforms.mapping import vmap

    __version__: str

__all__ = [
    # from a file to something that runs
    "load", "Executable", "set_num_threads", "compile_count",
    # models in Python
    "Tensor", "tensor", "constant", "from_numpy", "explain", "Dim", "spec", "ops", "nn", "compile", "jit",
    "cond", "loop", "while_loop", "fori_loop", "scan", "read_dim", "check_size",
    "random", "linalg", "fft", "optim", "train", "data", "debug", "generation", "manual_seed",
    "array_api",
    # many devices and hosts
    "Mesh", "distributed",
    "hann_window", "hamming_window", "blackman_window",
    # what language models write
    "generate",
    # derivatives
    "grad", "value_and_grad", "vjp", "jvp", "stop_gradient", "custom_vjp", "checkpoint",
    # operators of one's own
    "custom_op", "custom",
    # maps over examples, Jacobians
    "vmap", "jacfwd", "jacrev", "hessian", "linearize", "custom_jvp", "associative_scan",
    # JAX's functions
    "from_jax",
    # out again
    "export", "to_jax",
    # what can go wrong
    "BurnError", "ModelError", "TypeMismatch", "CompileError", "InputError", "RunError", "DataError", "errors",
]  # fmt: skip

_HOMES = {
    "burn.loading": ("load", "set_num_threads", "compile_count"),
    "burn.runtime": ("Executable",),
    "burn.tensors": ("Tensor", "tensor", "constant", "from_numpy", "Dim"),
    "burn.lazy": ("explain",),
    "burn.tensors.control": ("cond", "loop", "while_loop", "fori_loop", "scan", "read_dim", "check_size"),
    "burn.tensors.gradients": (
        "grad",
        "value_and_grad",
        "vjp",
        "jvp",
        "stop_gradient",
        "custom_vjp",
        "checkpoint",
    ),
    "burn.tensors.linear": ("custom_jvp", "linearize"),
    "burn.tensors.associative": ("associative_scan",),
    "burn.transforms.mapping": ("vmap",),
    "burn.transforms.jacobians": ("hessian", "jacfwd", "jacrev"),
    "burn.generation": ("generate",),
    "burn.random": ("manual_seed",),
    "burn.fft": ("hann_window", "hamming_window", "blackman_window"),
    "burn.dialect.spec": ("spec",),
    "burn.distributed.mesh": ("Mesh",),
    "burn.custom": ("custom_op",),
    "burn.compiled": ("compile", "from_jax"),
    "burn.jitted": ("jit",),
    "burn.exporting": ("export", "to_jax"),
    "burn.errors": ("BurnError", "ModelError", "TypeMismatch", "CompileError", "InputError", "RunError", "DataError"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}
_MODULES = (
    "array_api",
    "custom",
    "data",
    "debug",
    "distributed",
    "errors",
    "fft",
    "generation",
    "linalg",
    "nn",
    "ops",
    "optim",
    "random",
    "train",
)

evaluation.provide(
    evaluate=lambda: import_module("burn.lazy").evaluate,
    compile=lambda: import_module("burn.compiled").compile,
    family=lambda: lambda name: import_module(f"burn.{name}"),
)


if not TYPE_CHECKING:  # type checkers see the imports above and report unknown names

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"burn.{name}")
        if name == "__version__":
            return import_module("burn.runtime._native").__version__
        if name not in _HOME and (name.startswith("_") or name not in import_module("burn.tensors.functions").NAMES):
            hint = "" if name.startswith("_") else import_module("burn.suggestions").suggestion("burn", name, __dir__())
            raise AttributeError(f"module 'burn' has no attribute '{name}'{hint}")
        value = getattr(import_module(_HOME.get(name, "burn.tensors.functions")), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, "__version__", *import_module("burn.tensors.functions").NAMES})
