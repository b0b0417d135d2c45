"""`Module`: base class of models. Parameters, buffers and other modules are its attributes.

    class Classifier(nn.Module):
        def __init__(self):
            self.features = nn.Linear(784, 128)
            self.head = nn.Linear(128, 10)

        def forward(self, x):
            return self.head(ops.relu(self.features(x)))

A module is called with lazy tensors, or compiled whole (`burn.compile(Classifier(), ("float32[batch, 784]",))`). With the class
attributes `inputs` (names and types of the inputs) and `outputs` (names of the outputs), `burn.compile` needs no
examples.

`config` holds a module's constructor arguments as an immutable value (`burn.nn.config`). `Classifier.Config` is derived from the
constructor, unless a class defines a configuration. Modules are in inference mode until `train()` is called.
"""

from __future__ import annotations

import copy
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

import numpy as np

import burn.markup as markup
from burn.dialect.spec import element_type
from burn.dialect.types import FLOATS
from burn.dialect.weights import Weight
from burn.errors import BurnError, ModelError, Problem, TypeMismatch, WrongArgument
from burn.importers import weights
from burn.importers.weights.apply import DTypes, Filter, Remap, load_into
from burn.importers.weights.checkpoint import Checkpoint
from burn.importers.weights.report import Report
from burn.nn.checks import frozen
from burn.nn.config import Config, ConfigError, LayerConfig, derived, signature
from burn.nn.derived import NAME, computed, weight_of
from burn.nn.hooks import After, Before, Handle, Hooks
from burn.nn.parameter import Buffer, Parameter
from burn.nn.summary import observer, table
from burn.runtime import _native
from burn.runtime.device import named
from burn.suggestions import suggestion
from burn.tensors import Tensor
from burn.tensors.argument_types import INTERNAL, checks_of, wrong_argument
from burn.tensors.creation import asarray
from burn.tensors.tracer import active

M = TypeVar("M", bound="Module")


class Module:
    """Base of all modules. A subclass defines `forward`."""

    inputs: ClassVar[Mapping[str, str]] = {}
    outputs: ClassVar[Sequence[str]] = ()
    training: bool = False
    Config: ClassVar[Any]  # derived from the constructor, unless a class defines its own

    _arguments: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    _elsewhere: ClassVar[Mapping[str, str]] = {}  # arguments of other libraries -> hint
    _checked: ClassVar[bool] = False  # arguments are checked against the constructor's annotations

    if not TYPE_CHECKING:  # the signature that counts for type checkers is that of __init__

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            self = super().__new__(cls)
            vars(self)["_arguments"] = (frozen(args), {k: frozen(v) for k, v in kwargs.items()})
            if cls._checked:
                _ = self.config
            return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        # not by the constructor, which would check the arguments again
        return _blank, (type(self),), dict(vars(self))

    if not TYPE_CHECKING:  # checkers know the attributes that there are

        def __getattr__(self, name: str) -> Any:
            if (weight := weight_of(vars(self).get(NAME), name)) is not None:
                return weight
            hint = "" if name.startswith("_") else suggestion("Module", name, {*dir(type(self)), *vars(self)})
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'{hint}")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (list, tuple, dict)) and name not in _OWN:
            held = list(value.values() if isinstance(value, dict) else value)
            if any(isinstance(v, (Module, Parameter)) for v in held):
                kind = "ModuleDict" if isinstance(value, dict) else "ModuleList"
                raise TypeMismatch(
                    f"{type(self).__name__}.{name} would hide the modules or parameters in it",
                    [f"a {type(value).__name__} is not looked into; write nn.{kind}(...), or name each"],
                )
        if name in vars(self).get(NAME, ()):
            hint = "nn.adapt.bake(model) makes it one"
            problem = Problem("it is computed from others", hint=hint)
            raise TypeMismatch(f"{type(self).__name__}.{name} is no parameter", [problem])
        if isinstance(vars(self).get(name), Parameter) and value is not None and not isinstance(value, Parameter):
            hint = f"write .{name}.assign(elements), or give another nn.Parameter"
            raise TypeMismatch(
                f"{type(self).__name__}.{name} is a parameter",
                [Problem(f"a {type(value).__name__} is none", hint=hint)],
            )
        super().__setattr__(name, value)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's computation, written with tensors."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls `forward`. Converts array arguments to tensors. An error names the innermost layer that raised
        it."""
        if self._checked and args and isinstance(args[0], (list, tuple)) and _is_numbers(args[0]):
            hint = "write burn.tensor([...]), or give an array"
            raise TypeMismatch(
                f"{type(self).__name__} takes tensors", [Problem("a list of numbers is none", hint=hint)]
            )
        args = tuple(map(_tensor, args))
        kwargs = {name: _tensor(value) for name, value in kwargs.items()}
        hooks: Hooks | None = vars(self).get("_hooks")
        if hooks is not None:
            args = hooks.arguments(self, args)
        watching = observer.get()
        tracer = active()
        try:
            holder = vars(self).get(NAME)
            if tracer is None and hooks is None and holder is None:
                return _given(self.forward(*args, **kwargs))
            with nullcontext() if tracer is None else tracer.scope(self), computed(holder):
                result = self.forward(*args, **kwargs)
                result = result if hooks is None else hooks.result(self, args, result)
        except TypeMismatch as error:
            if not error.summary.startswith("in "):
                error.summary = f"in {type(self).__name__}({self.extra_repr()}): {error.summary}"
                error.problems = (*error.problems, *self._too_wide(args))
            raise
        except INTERNAL as error:
            wrong = None
            if self._checked and not isinstance(error, BurnError):
                own = type(self).forward
                wrong = wrong_argument(own, checks_of(own), (self, *args), kwargs)
            if wrong is None:
                raise
            raise WrongArgument(f"{type(self).__name__}: {wrong}") from None
        if watching is not None:
            watching.saw(self, result)
        return _given(result)

    def _too_wide(self, args: tuple[Any, ...]) -> list[Problem]:
        """Errors for float64 arguments (numpy's default) of a module with other parameters."""
        types = {str(p.dtype) for p in self.parameters() if p.dtype in FLOATS}
        if not types or "float64" in types:
            return []
        hint = "x.astype(np.float32)"
        return [
            Problem(
                f"argument {i} is float64, as numpy's floats are, and the parameters are {', '.join(sorted(types))}",
                hint=hint,
            )
            for i, x in enumerate(args)
            if isinstance(x, Tensor) and x.dtype == "float64"
        ]

    def register_forward_hook(self, hook: After) -> Handle:
        """Calls hook(module, arguments, result) after every `forward`; its result, unless None, replaces the module's. A compiled
        function calls it once, while tracing. Returns a handle, whose `remove()` removes the hook."""
        return Handle(self._hooked().after, hook)

    def register_forward_pre_hook(self, hook: Before) -> Handle:
        """Calls hook(module, arguments) before every `forward`; its result, unless None, replaces the arguments."""
        return Handle(self._hooked().before, hook)

    def _hooked(self) -> Hooks:
        return vars(self).setdefault("_hooks", Hooks())

    # ---- configuration -----------------------------------------------------------------------------------------------
    @property
    def config(self) -> Config:
        """The constructor's arguments, including defaults. Raises ConfigError for arguments that the constructor does not
        have."""
        if "_config" not in vars(self):
            vars(self)["_config"] = self._recorded()
        return vars(self)["_config"]

    def _recorded(self) -> Config:
        cls = type(self)
        args, kwargs = self._arguments
        own = cls.Config
        if not issubclass(own, LayerConfig):
            if len(args) == 1 and isinstance(args[0], own):
                return args[0]
            own = derived(cls)
        elif len(args) == 1 and not kwargs and isinstance(args[0], Config):
            return args[0]  # a class that is made of a configuration has that one
        try:
            bound = signature(cls).bind(*args, **kwargs)
        except TypeError as error:
            taken = list(signature(cls).parameters)
            known = {
                **{n: f"'{n}' is called '{here}' here" for n, here in TORCH.items() if here in taken},
                **self._elsewhere,
            }
            wrong = {hint for name, hint in known.items() if name in kwargs and name not in taken}
            problems = [Problem(str(error), hint=f"it takes {', '.join(taken)}"), *map(Problem, sorted(wrong))]
            raise ConfigError(f"{cls.__name__} does not take these arguments", problems) from None
        try:
            return own(**{k: v for k, v in bound.arguments.items() if k != "self"})
        except ConfigError as error:
            raise ConfigError(f"{cls.__name__} does not take these arguments", error.problems) from None

    # ---- contents ----------------------------------------------------------------------------------------------------
    def children(self) -> Iterator[tuple[str, Module]]:
        """The modules directly in this one, by attribute."""
        return ((name, value) for name, value in vars(self).items() if isinstance(value, Module))

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all modules in it, by path ("encoder.0.attention"); its own path is `prefix`."""
        yield prefix, self
        for name, child in self.children():
            yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def named_parameters(self, buffers: bool = True, shared: bool = False) -> Iterator[tuple[str, Parameter]]:
        """Parameters, and with `buffers` also buffers, by path. A shared parameter has its first path only, or with `shared`
        every path."""
        seen: set[int] = set()
        for path, module in self.named_modules():
            for name, value in vars(module).items():
                if not isinstance(value, Parameter) or (isinstance(value, Buffer) and not buffers):
                    continue
                if shared or id(value) not in seen:
                    seen.add(id(value))
                    yield f"{path}.{name}" if path else name, value

    def named_buffers(self) -> Iterator[tuple[str, Buffer]]:
        """Tensors in state dicts that are not trained: tables, running statistics."""
        return ((path, p) for path, p in self.named_parameters() if isinstance(p, Buffer))

    def parameters(self) -> Iterator[Parameter]:
        """The trainable parameters, frozen or not, each once."""
        return (p for _, p in self.named_parameters(buffers=False))

    def modules(self) -> Iterator[Module]:
        """This module and all in it."""
        return (module for _, module in self.named_modules())

    def num_params(self, buffers: bool = False, trainable: bool = False) -> int:
        """The number of elements of all parameters: with `buffers` including buffers, with `trainable` without frozen ones."""
        return sum(p.count for _, p in self.named_parameters(buffers) if p.trainable or not trainable)

    # ---- modes and changes -------------------------------------------------------------------------------------------
    def train(self: M, mode: bool = True) -> M:
        """Training mode: dropout is active, batch normalisation uses the batch's statistics. Returns the module itself."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self: M) -> M:
        """Inference mode, the mode of new modules."""
        return self.train(False)

    def apply(self: M, function: Callable[[Module], Any]) -> M:
        """Calls a function with every module, the inner ones first."""
        for module in reversed(list(self.modules())):
            function(module)
        return self

    def visit(self, function: Callable[[str, Parameter], Any], buffers: bool = False) -> None:
        """Calls a function with every parameter and its path."""
        for path, parameter in list(self.named_parameters(buffers)):
            function(path, parameter)

    def map(self: M, function: Callable[[str, Parameter], Any], buffers: bool = False) -> M:
        """A copy with parameters from a function of path and parameter (a tensor or an array of the same type; None
        keeps the elements). Raises TypeMismatch that names the first misfit."""
        other = self.clone()
        for path, parameter in other.named_parameters(buffers):
            parameter.name = path
            elements = function(path, parameter)
            if elements is not None:
                parameter.assign(elements)
        return other

    def freeze(self: M, pattern: str = "") -> M:
        """Stops training of parameters whose path matches a regular expression (default: all). Raises TypeMismatch
        if none matches."""
        return self._set_trainable(pattern, False)

    def unfreeze(self: M, pattern: str = "") -> M:
        """The opposite of `freeze`."""
        return self._set_trainable(pattern, True)

    def _set_trainable(self: M, pattern: str, value: bool) -> M:
        found = [p for path, p in self.named_parameters(buffers=False, shared=True) if re.search(pattern, path)]
        if not found and pattern:
            names = ", ".join(path for path, _ in self.named_parameters(buffers=False))
            raise TypeMismatch(f"'{pattern}' is in no parameter's path", [f"the paths are {names or 'none'}"])
        for parameter in found:
            parameter.trainable = value
        return self

    def to(self: M, target: Any) -> M:
        """Converts float parameters and buffers to another float type, in place; or moves all to a device ("cpu", "cuda",
        "cuda:1"). Raises TypeMismatch, and DeviceError for a GPU that does not exist."""
        where = named(target)
        if where is not None:
            if not where.memory.is_host:
                _ = where.native  # raises if it is not there, before anything moves
            for _, parameter in self.named_parameters():
                parameter.move(where)
            return self
        dtype = element_type(target)
        for _, parameter in self.named_parameters():
            if parameter.dtype in FLOATS:
                parameter.convert(dtype)
        return self

    def half(self: M) -> M:
        return self.to("float16")

    def bfloat16(self: M) -> M:
        return self.to("bfloat16")

    def clone(self: M) -> M:
        """A copy with its own parameters; parameters shared inside stay shared. Elements are copied on write."""
        return copy.deepcopy(self)

    # ---- weights -----------------------------------------------------------------------------------------------------
    def _unsaved(self) -> Problem | None:
        """A reason why the elements of this module are not those that its parameters' names stand for."""
        return None

    def _must_be_savable(self) -> None:
        """Raises TypeMismatch for modules whose elements are not those that a file has under these names."""
        problems = [
            Problem(f"'{path}': {reason.message}", hint=reason.hint)
            for path, module in self.named_modules()
            if (reason := module._unsaved()) is not None
        ]
        if problems:
            raise TypeMismatch("a model with merged adapters is neither saved nor loaded", problems)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Every parameter's and buffer's elements by path, read-only; those of a file stay mapped. `.assign(elements)` or
        `load_state_dict` change a parameter. Raises TypeMismatch for a model with merged adapters (`nn.adapt.merge`)."""
        self._must_be_savable()
        return {name: parameter.array for name, parameter in self.named_parameters()}

    def load_state_dict(self, state: Mapping[str, np.ndarray | Weight]) -> None:
        """Loads elements by path, all or none. Raises ModelError that lists every missing, unknown or unfitting tensor."""
        self.load(state, adapter=None)

    def load(
        self,
        source: str | os.PathLike[str] | Mapping[str, np.ndarray | Weight],
        *,
        remap: Remap | None = None,
        include: Filter | None = None,
        exclude: Filter | None = None,
        partial: bool = False,
        dtype: DTypes | None = None,
        adapter: str | None = "auto",
        top_level_key: str | None = None,
    ) -> Report:
        """Loads the weights of a file (safetensors and its shards, torch's .pt/.pth/.bin, .bpk, .npz) or of a mapping (a state
        dict, or the result of `burn.importers.weights.read`).

        - `remap`: (pattern, replacement) pairs of regular expressions, applied in order to the tensors' names.
        - `include`, `exclude`: select parameters by name: patterns, found anywhere in it, or a function.
        - `partial`: permits missing parameters and unused tensors.
        - `dtype`: "cast" converts floats to the parameters' types. An element type ("float16") converts float parameters to that
          type. A mapping from patterns to either, or to None, takes the first pattern found in the parameter's name.
        - `adapter`: names and layouts of the tensors, "torch", "burn" (Rust), "flax" or None for this module's own. "auto" uses
          the file's metadata, else names and shapes.
        - `top_level_key`: key of the state dict in a torch checkpoint.

        Returns a report of every tensor. Raises ModelError with the report, and loads nothing, if a parameter is missing, a
        tensor is unused, or a shape or type does not fit. With `partial` it raises only if something does not fit, or if nothing
        fits, and TypeMismatch for a model with merged adapters."""
        import burn.nn.layouts  # noqa: F401  # the layers' rules

        self._must_be_savable()
        if isinstance(source, Mapping):
            if top_level_key is not None:
                raise ModelError("top_level_key is for files", ["take what lies under the key from the mapping"])
            checkpoint = source if isinstance(source, Checkpoint) else Checkpoint.of(source)
        else:
            checkpoint = weights.read(source, top_level_key)
        return load_into(
            self,
            checkpoint,
            remap=remap,
            include=include,
            exclude=exclude,
            partial=partial,
            dtype=dtype,
            adapter=adapter,
        )

    @classmethod
    def from_file(cls: type[M], path: str | os.PathLike[str], *args: Any, **kwargs: Any) -> M:
        """A module, made with these arguments, with the weights of a file (see `load`), which stay mapped if possible."""
        module = cls(*args, **kwargs)
        module.load(path)
        return module

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes all parameters and buffers to a .safetensors, .bpk, .npz or .msgpack file, atomically. Raises TypeMismatch for a
        model with merged adapters."""
        self._must_be_savable()
        weights.write(path, {name: parameter.weight for name, parameter in self.named_parameters()})

    # ---- text --------------------------------------------------------------------------------------------------------
    def extra_repr(self) -> str:
        """A subclass's text in `repr`."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self.children()]
        head = f"{type(self).__name__}({self.extra_repr()}"
        return head + ("\n  " + "\n  ".join(lines) + "\n" if lines else "") + ")"

    def _repr_html_(self) -> str:
        """For notebooks: a tree of modules that folds, with the types of parameters."""
        return self._tree("", {}, opened=True)

    def _tree(self, name: str, seen: dict[int, str], opened: bool = False) -> markup.Markup:
        """seen: paths of the parameters that are in the tree already."""
        label = markup.joined(*[markup.code(f"({name.rpartition('.')[2]})")] * bool(name), type(self).__name__)
        sizes = [p.type.elements for _, p in self.named_parameters(buffers=False)]
        count = sum(n for n in sizes if isinstance(n, int))
        parts: list[object] = []
        for attribute, value in vars(self).items():
            if isinstance(value, Parameter):
                path = f"{name}.{attribute}" if name else attribute
                first = seen.setdefault(id(value), path)
                notes = [f"shared with {first}"] * (first != path) + ["buffer"] * isinstance(value, Buffer)
                parts.append(markup.joined(markup.code(attribute), markup.code(value.type), *notes))
        for attribute, child in self.children():
            parts.append(child._tree(f"{name}.{attribute}" if name else attribute, seen))
        extra = self.extra_repr()
        head = markup.joined(label, f"({extra})" if extra else "", f"{count:,} parameters" if count else "")
        return markup.details(head, *parts, opened=opened)

    def summary(self, *inputs: Any) -> str:
        """A table of the modules: path, kind, parameters and their shapes. With inputs (types, "float32[batch, 784]", or
        examples) also each module's output type, with symbolic sizes. Raises the errors of a call with these inputs."""
        return table(self, inputs)


def _tensor(value: Any) -> Any:
    """An array of any library as a tensor; other values unchanged."""
    if isinstance(value, Tensor) or not (isinstance(value, np.ndarray) or hasattr(value, "__dlpack__")):
        return value
    return asarray(value)


def _given(result: Any) -> Any:
    """A module's result; a parameter that is returned itself becomes a tensor of its present elements."""
    return result._present() if isinstance(result, Parameter) else result


def _is_numbers(value: Any) -> bool:
    """True for a list of numbers, or of such lists."""
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    return _is_numbers(first) if isinstance(first, (list, tuple)) and first else isinstance(first, (int, float))


def _blank(cls: type[Module]) -> Module:
    return object.__new__(cls)


class Layer(Module):
    """Base of this package's modules: construction checks the arguments and raises ConfigError."""

    _checked = True


class _DerivedConfig:
    """`Module.Config`: the configuration class derived from the constructor, made at the first use."""

    def __get__(self, instance: Module | None, owner: type[Module]) -> type[Config]:
        made = owner.__dict__.get("_made_config")
        if made is None:
            made = derived(owner)
            type.__setattr__(owner, "_made_config", made)
        return made


Module.Config = _DerivedConfig()
_native.set_module_class(Module)

TORCH = {
    "embed_dim": "dim", "d_model": "dim", "num_heads": "heads", "nhead": "heads", "kdim": "key_dim", "vdim": "value_dim",
    "dim_feedforward": "hidden", "num_layers": "layers", "num_embeddings": "count", "embedding_dim": "dim",
    "padding_idx": "padding_index", "elementwise_affine": "affine", "epsilon": "eps", "start_dim": "start",
    "end_dim": "end", "unflattened_size": "sizes", "layer_norm_eps": "eps",
}  # fmt: skip
"""Argument names of torch's layers -> names here."""

_OWN = frozenset({"_arguments", "_modules"})
"""Attributes that do not count as module state: the recorded arguments, and a container's contents."""
