"""Functions and modules of tensors, compiled ahead of time for example inputs: `burn.compile`.

    fast = burn.compile(f, (example,), dynamic={"x": {0: "batch"}})     # one executable for every batch size

Parameters of modules become constants: rearranged once for the machine, and frozen. `burn.jit` (jitted.py) compiles for the
arguments of each call, and follows changes of parameters.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from burn.caching import executable
from burn.errors import TypeMismatch
from burn.options import FULL, Options
from burn.runtime.arrays import like
from burn.runtime.device import CPU, Device
from burn.runtime.device_array import DeviceArray, callers
from burn.tensors import trees
from burn.tracing.arguments import Arguments, Dynamic, donated_names
from burn.tracing.trace import Traced, arguments_of, signature_of, trace_call

if TYPE_CHECKING:
    import numpy as np

    from burn.runtime import Executable


def compile(
    function: Any,
    example_inputs: Any = None,
    dynamic: Dynamic | None = None,
    *,
    kwargs: Mapping[str, Any] | None = None,
    target: str | None = None,
    device: str | Device = CPU,
    precision: str = FULL,
    autotune: str | None = None,
    exact: bool = False,
    donate: Sequence[int | str] = (),
    cache: bool = True,
    train: bool = False,
) -> Any:
    """Compiles a module or a function of tensors, a PyTorch module, or a JAX function, for this machine (or the CPU `target`).

    `example_inputs`: arrays, types ("float32[batch, 3]") or containers of them (lists, tuples, dictionaries, dataclasses), by
    position (several in a tuple) or by name. A module with its own input types, such as an imported one, needs none.
    `kwargs`: further examples for a PyTorch module or a JAX function, by name.
    `dynamic`: names for sizes that vary, {"x": {0: "batch"}}, by the inputs' names or positions. The program accepts all sizes.
    `device`: "cpu", or a GPU, "cuda" or "cuda:1".
    `donate`: arguments, by position or name, that each call gives up. Results may reuse their memory, so their contents are lost
    in any case. Their arrays must be writable and share no memory.
    `cache`: read the compiled program from the disk cache, keyed by text and constants, and write it there.
    `precision`: "bf16" or "fp16" for matmuls in that type. See `burn.load` for precision, exact and autotune.
    `train`: return a burn module to be trained instead (`burn.nn.Graph`), made from a PyTorch module or an exported program. It
    has the same parameters and call signature, and `copy_to(module)` copies the parameters back. A JAX function with parameters
    becomes a module (burn/adapters/jax/training.py) that is differentiated by JAX's rules.

    Returns an Executable. If arguments or results are containers, or some arguments are not tensors, it returns a
    CompiledFunction, which is called like the function. A torch.nn.Module or an exported program becomes a CompiledModule, which
    takes and returns torch's tensors (burn/adapters/torch). A jitted or transformed JAX function, a module of Flax or Equinox,
    or `burn.from_jax(f)` becomes a CompiledJax, which takes and returns JAX's arrays (burn/adapters/jax).

    Raises TypeMismatch for operands that do not fit each other, ModelError for what cannot be imported, CompileError, and
    DeviceError for a GPU that is not there."""
    options = Options.of(target=target, device=device, precision=precision, autotune=autotune, exact=exact, cache=cache)
    options.device.open_beside()
    if is_torch(function):
        from burn.adapters.torch import compile_module, to_train

        examples = () if example_inputs is None else example_inputs  # a tensor has no truth value
        if train:
            return to_train(function, examples, kwargs, dynamic)
        return compile_module(function, examples, kwargs, dynamic, options, donate)
    if is_jax(function):
        from burn.adapters import jax

        own = jax.as_function(function)
        if train:
            return jax.to_train(own, example_inputs, kwargs, dynamic)
        return jax.compile_function(own, example_inputs, kwargs, dynamic, options, donate)
    if train:
        raise TypeMismatch(
            "burn.compile turns PyTorch's modules and JAX's functions into modules that burn trains",
            [
                "burn's own are trained as they are",
                "a plain function of JAX's arrays is given as burn.from_jax(function)",
            ],
        )
    if kwargs is not None:
        example_inputs = _by_name(function, example_inputs, kwargs)
    traced = trace_call(function, arguments_of(function, example_inputs, dynamic))
    made = executable_of(traced, options, donate)
    return made if traced.is_flat else CompiledFunction(made, traced.arguments, traced.results)


def is_torch(function: Any) -> bool:
    """True if it is PyTorch's; which is not imported for this: only a caller that has it can have made one."""
    torch = sys.modules.get("torch")
    if torch is None:
        return False
    exported = getattr(sys.modules.get("torch.export"), "ExportedProgram", ())
    return isinstance(function, (torch.nn.Module, exported))


def from_jax(function: Any, parameters: Any = None, state: Any = None) -> Any:
    """A JAX function as a function of burn's tensors, for burn.compile, burn.jit, burn.export, burn.grad, and for calls in
    functions that burn traces.

    function: a function of JAX's arrays, jitted or not, or a module: a bound one of Flax (`model.bind(variables)`), one of
    Flax NNX, or one of Equinox.
    parameters: the function's first argument, a pytree of arrays: `burn.from_jax(model.apply, variables)`. Their names are
    their paths. A module's arrays, and those bound by functools.partial, are parameters without this argument.
    state: the function's second argument, a pytree of arrays that are not trained: running statistics, keys. The function then
    returns its result and the state afterwards, as Haiku's `transform_with_state` has it. A module that burn trains keeps the
    state in buffers, and those of Flax NNX need no `state`. Elsewhere a function that changes its state raises TypeMismatch.

    burn.compile and the like take a jitted function (`jax.jit(f)`), a transformed one (`jax.vmap(f)`), or a module as it is.
    A plain Python function needs from_jax, because it might be one of burn's tensors. Numbers that are no arrays, strings and
    the like are constants of a call. Results are tensors in the function's own containers. Floats are differentiated by JAX's
    rules, with the user's custom_vjp, custom_jvp and checkpoints. Raises TypeMismatch for what is not a function, and at a call
    ModelError with everything that burn does not have."""
    from burn.adapters.jax import wrapped

    return wrapped(function, parameters, state)


JAX_PACKAGES = ("jax", "jaxlib", "flax", "equinox", "haiku", "optax")


def is_jax(function: Any) -> bool:
    """True if it is a function of JAX's: jitted, transformed, a module or its method, or `burn.from_jax(f)`. A plain function is
    not: it may be one of burn's tensors. JAX is not imported for this."""
    if "jax" not in sys.modules:
        return False
    if isinstance(function, functools.partial):
        return is_jax(function.func)
    if any(base.__module__.partition(".")[0] in JAX_PACKAGES for base in type(function).__mro__):
        return True
    if type(function).__module__ == "burn.adapters.jax.function":
        return True
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, (type, ModuleType)):
        return is_jax(owner)
    home = getattr(function, "__globals__", {}).get("__name__", "")
    return isinstance(home, str) and home.partition(".")[0] in JAX_PACKAGES


def _by_name(function: Callable[..., Any], examples: Any, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """All examples by name."""
    if isinstance(examples, Mapping):
        return {**examples, **kwargs}
    return {**dict(zip(signature_of(function).parameters, examples or (), strict=False)), **kwargs}


def executable_of(traced: Traced, options: Options | None = None, donate: Sequence[int | str] = ()) -> Executable:
    traced.program.given_up = (*_given_up(traced.arguments, donate), *traced.program.renews.values())
    return executable(traced.program, options)


def _given_up(arguments: Arguments, donate: Sequence[int | str]) -> tuple[int, ...]:
    """The numbers of the tensors in the arguments that `donate` names."""
    wanted = donated_names(donate, arguments.names)
    owners = [n for n, s in zip(arguments.names, arguments.structures, strict=True) for _ in trees.paths(s)]
    return tuple(number for number, name in enumerate(owners) if name in wanted)


class CompiledFunction:
    """A compiled program that is called as the function it was made of. `executable` takes and gives tensors by path."""

    def __init__(self, executable: Executable, arguments: Arguments, results: trees.Structure) -> None:
        self.executable = executable
        self._arguments, self._results = arguments, results
        self._is_leaf = isinstance(results, trees.Leaf)  # which is an executable's own form of one output

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the function. Raises InputError if the arguments differ in structure or type from the examples, and RunError."""
        return self.run_leaves(self._arguments.leaves(args, kwargs))

    def run_leaves(self, leaves: Sequence[Any]) -> Any:
        outputs = self.executable(*leaves)
        if self._is_leaf:
            return outputs
        return trees.unflatten(self._results, outputs if isinstance(outputs, tuple) else (outputs,))

    def run_giving(
        self, leaves: Sequence[Any], given_up: Sequence[int], given: Sequence[Any]
    ) -> tuple[Any, list[np.ndarray | DeviceArray]]:
        """Returns the function's results, and the arrays of further outputs. given_up: the numbers of inputs that outputs may
        overwrite. given: the inputs that the caller holds."""
        outputs = self.executable.run_giving(leaves, given_up)
        count = len(trees.paths(self._results))
        present = like if self.executable.device.memory.is_host else callers
        shown = present(outputs[:count], given)
        return trees.unflatten(self._results, shown), outputs[count:]

    def _repr_html_(self) -> str:
        return self.executable._repr_html_()

    def __repr__(self) -> str:
        return f"CompiledFunction({self.executable!r})"
