"""Functions and modules of tensors, compiled for inputs that are given beforehand: `burn.compile`.

fast = burn.compile(f, (example,), dynamic={"x": {0: "batch"}})     # one executable for every batch size

Parameters of modules are constants of what is compiled so: rearranged once for the machine, and frozen. `burn.jit` (jitted.py)
compiles for the arguments of each call, and parameters stay what the modules have.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
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
    """Compiles a module or a function of tensors, or a PyTorch module, for this machine (or for the CPU `target`), to run on
    `device`: "cpu", or a card, "cuda" or "cuda:1".

    example_inputs: arrays, types ("float32[batch, 3]") or containers of them (lists, tuples, dictionaries, dataclasses), by
    position (in a tuple, where there are several) or by name; a module that knows its inputs (as imported ones do) needs
    none. dynamic: names for sizes that vary, {"x": {0: "batch"}}, by the inputs' names or positions; what is compiled takes
    every size of them. donate: arguments, by position or name, that each call gives up: results may take over their memory, so
    that what they held is lost, whether or not that is done. Their arrays must be writable and share no memory. cache: take the
    compiled program from the disk cache, where there is one of the same text and constants, and put it there. precision: "bf16"
    or "fp16" for products in that type, see `burn.load`; so are exact and autotune.

    Returns an Executable; where arguments or results are containers, or not all arguments are tensors, a CompiledFunction,
    which is called as the function is. A torch.nn.Module or an exported program becomes a CompiledModule, which takes and
    gives torch's tensors (burn/adapters/torch); `kwargs` are further examples for it, by name.

    train: give a module of burn's to be trained instead (`burn.nn.Graph`), which a PyTorch module or an exported program becomes:
    it has the parameters' names and elements, is called as the module is, and `copy_to(module)` gives the elements back.

    Raises TypeMismatch for operands that do not fit each other, ModelError for what cannot be imported, CompileError, and
    DeviceError for a card that is not there."""
    options = Options.of(target=target, device=device, precision=precision, autotune=autotune, exact=exact, cache=cache)
    if is_torch(function):
        from burn.adapters.torch import compile_module, to_train

        examples = () if example_inputs is None else example_inputs  # a tensor has no truth value
        if train:
            return to_train(function, examples, kwargs, dynamic)
        return compile_module(function, examples, kwargs, dynamic, options, donate)
    if train:
        raise TypeMismatch(
            "burn.compile turns PyTorch's modules into ones that burn trains", ["burn's own are trained as they are"]
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

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the function returns. Raises InputError where the arguments are not made like the examples, and RunError."""
        return self.run_leaves(self._arguments.leaves(args, kwargs))

    def run_leaves(self, leaves: Sequence[Any]) -> Any:
        outputs = self.executable(*leaves)
        return trees.unflatten(self._results, outputs if isinstance(outputs, tuple) else (outputs,))

    def run_giving(
        self, leaves: Sequence[Any], given_up: Sequence[int], given: Sequence[Any]
    ) -> tuple[Any, list[np.ndarray | DeviceArray]]:
        """What the function returns, and the arrays of the outputs behind it. given_up: the numbers of inputs that outputs may
        be written over. given: the inputs that the caller knows of."""
        outputs = self.executable.run_giving(leaves, given_up)
        count = len(trees.paths(self._results))
        present = like if self.executable.device.memory.is_host else callers
        shown = present(outputs[:count], given)
        return trees.unflatten(self._results, shown), outputs[count:]

    def __repr__(self) -> str:
        return f"CompiledFunction({self.executable!r})"
