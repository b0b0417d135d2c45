"""Compiled programs inside of JAX's: the C library of a program behind a call of XLA's foreign function interface. Enter at
`to_jax`.

    attend = burn.deploy.xla.to_jax(function, ("float32[n, 8]",))
    jax.jit(lambda x: jnp.sum(attend(x) ** 2))(x)

burn compiles the program, and another one for its derivative. A C compiler links each with a handler (native/xla/call.c) against
the header that jaxlib has. Importing this module imports jax.
"""

from __future__ import annotations

import ctypes
import hashlib
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import jax

from burn import toolchain
from burn.adapters.to_jax.builder import LaxBuilder
from burn.adapters.to_jax.function import sizes_of
from burn.deploy.build import build
from burn.deploy.options import Options
from burn.dialect.dims import symbols
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType, numpy_dtype
from burn.errors import CompileError, InputError, Problem
from burn.exporting import jax_function
from burn.toolchain import platforms
from burn.tracing.trace import Dynamic

HANDLER = Path(__file__).parent / "native" / "xla" / "call.c"
ELEMENTS = frozenset(
    [
        *("bool", "float16", "bfloat16", "float32", "float64"),
        *(f"{sign}int{width}" for sign in ("", "u") for width in (8, 16, 32, 64)),
    ]
)
"""The element types of inputs and outputs, as `element_of` in the handler has them."""

_SUMMARY = "the program cannot be called by XLA"
_linked: dict[str, Any] = {}
"""The libraries by their targets. They stay: XLA calls them as long as the process lives."""


def to_jax(
    function: Any,
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None,
    dynamic: Dynamic | None = None,
    *,
    parameters: bool = False,
) -> Any:
    """A module or a function of tensors, a PyTorch module, or a `Program`, compiled for this CPU, as a function of JAX.

    `example_inputs, dynamic, parameters`, and how the function is called: as for `burn.to_jax`. `jax.jit` accepts it, and
    `jax.grad` in reverse mode, by burn's backward pass; a PyTorch module and a `Program` have no derivative. `jax.vmap` calls the
    program for one element after another. Named sizes are any numbers, each call has its own.

    Raises CompileError for a program that draws random numbers, whose element types XLA does not have, or whose output sizes
    depend on elements, and if there is no C compiler. A call raises InputError for shapes that do not fit and for symbolic
    sizes (`jax.export`), and JAX's error with burn's message if the program fails."""
    return jax_function(
        function, example_inputs, dynamic, parameters, "burn" if _derives(function) else None, Linked.of
    )


def _derives(function: Any) -> bool:
    from burn.compiled import is_torch

    return not isinstance(function, Program) and not is_torch(function)


@dataclass(frozen=True)
class Linked:
    """A compiled program that XLA calls by the name `target`."""

    program: Program
    target: str

    @staticmethod
    def of(program: Program) -> Linked:
        """Compiles a program, and registers it with XLA. Raises CompileError."""
        _check(program)
        return Linked(program, _registered(program.copy()))

    @property
    def names(self) -> list[str]:
        return self.program.input_names

    @cached_property
    def types(self) -> list[TensorType]:
        with context():
            return self.program.input_types

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The outputs for arrays of the declared element types. Raises InputError for shapes that do not fit."""
        with context():
            builder = LaxBuilder(sizes_of(self.names, self.types, arrays))
            results = [([builder.size(d) for d in t.shape], numpy_dtype(t.dtype)) for t in self.program.output_types]
        sizes = [size for shape, _ in results for size in shape] + [size for x in arrays for size in x.shape]
        if not all(isinstance(size, int) for size in sizes):
            hint = "burn.to_jax accepts symbolic sizes"
            raise InputError("the inputs do not fit the program", [Problem("a size is symbolic", hint=hint)])
        declared = [jax.ShapeDtypeStruct(tuple(shape), dtype) for shape, dtype in results]
        return list(jax.ffi.ffi_call(self.target, declared, vmap_method="sequential")(*arrays))


def _check(program: Program) -> None:
    problems = []
    if program.random_state:
        hint = "burn.to_jax(function) takes a random state"
        problems.append(Problem("it draws random numbers", hint=hint))
    with context():
        inputs, outputs = program.input_types, program.output_types
        known = {name for type_ in inputs for dim in type_.shape for name in symbols(dim)}
        values = [*zip(program.input_names, inputs, strict=True), *zip(program.output_names, outputs, strict=True)]
        problems += [
            Problem(f"'{name}' has elements that XLA does not have: {type_}")
            for name, type_ in values
            if type_.dtype not in ELEMENTS
        ]
        problems += [
            Problem(f"the size of output '{name}' depends on elements: {type_}")
            for name, type_ in zip(program.output_names, outputs, strict=True)
            if any(not symbols(dim) <= known for dim in type_.shape)
        ]
    if problems:
        raise CompileError(_SUMMARY, problems)


def _registered(program: Program) -> str:
    """The target that a program's library has in XLA: the same for the same library, in every process."""
    platform = platforms.find()
    chain = toolchain.find(platform)
    with tempfile.TemporaryDirectory() as folder:
        files = build("static", program, Path(folder), Options(platform, name="program"))
        included = [f"-I{folder}", f"-I{jax.ffi.include_dir()}"]
        objects = chain.compile([HANDLER], Path(folder), included)
        library = Path(folder) / "called.so"
        chain.shared([*objects, files[0]], library, ["burn_xla_call", "burn_xla_error", "burn_xla_open"])
        target = f"burn_{hashlib.sha256(library.read_bytes()).hexdigest()[:24]}"
        if target not in _linked:
            loaded = ctypes.CDLL(str(library))
            loaded.burn_xla_error.restype = ctypes.c_char_p
            if loaded.burn_xla_open():
                raise CompileError(_SUMMARY, [loaded.burn_xla_error().decode()])
            jax.ffi.register_ffi_target(target, jax.ffi.pycapsule(loaded.burn_xla_call), platform="cpu")
            _linked[target] = loaded
    return target
