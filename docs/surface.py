"""The public names of burn: one list, which the reference, the signature snapshot and their tests read. Enter at `entries`.

A name is public if `burn.__all__`, the tensor functions (`burn.tensors.functions.NAMES`), `burn.ops.names()` or the
`__all__` of a module in `MODULES` has it. Everything else may change in any release (docs/dev/versions.md).
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import sys
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType
from typing import Any

import burn
from burn import errors, nn, ops, train
from burn.dialect.mlir import context
from burn.tensors.functions import FREE, NAMES


@dataclass(frozen=True)
class Entry:
    """A public name: `burn.nn.Linear`, the object, and the reference page that documents it."""

    name: str
    value: Any
    page: str

    @property
    def kind(self) -> str:
        """Its role in Sphinx's Python domain."""
        if inspect.isclass(self.value):
            return "exception" if issubclass(self.value, BaseException) else "class"
        return "function" if callable(self.value) and not hasattr(self.value, "__origin__") else "data"

    @property
    def documentation(self) -> str:
        """The docstring, "" if there is none. An alias or a constant has the string that follows its assignment."""
        if self.kind == "data":
            return _following(self.name)
        text = inspect.getdoc(self.value) or ""
        return "" if text.startswith(f"{getattr(self.value, '__name__', '')}(") else text  # as dataclasses write it


MODULES: Mapping[str, str] = {
    "burn.array_api": "array-api",
    "burn.array_api.fft": "array-api-fft",
    "burn.array_api.linalg": "array-api-linalg",
    "burn.custom": "custom",
    "burn.data": "data",
    "burn.debug": "debug",
    "burn.distributed": "distributed",
    "burn.fft": "fft",
    "burn.generation": "generation",
    "burn.linalg": "linalg",
    "burn.nn.adapt": "nn-adapt",
    "burn.nn.init": "nn-init",
    "burn.optim": "optim",
    "burn.quantization": "quantization",
    "burn.random": "random",
    "burn.train": "train",
    "burn.train.events": "train-events",
    "burn.train.metrics": "train-metrics",
}
"""Public modules, and the pages of the names that they define. `burn.nn` has a page for each file, `burn.ops` for each family."""

CORE: Mapping[str, tuple[str, ...]] = {
    "run": (
        "load", "compile", "jit", "export", "from_jax", "to_jax", "Executable", "explain", "compile_count", "set_num_threads",
        "spec",
    ),
    "tensor": ("Tensor", "tensor", "constant", "from_numpy", "Dim"),
    "control": ("cond", "while_loop", "fori_loop", "loop", "scan", "read_dim", "check_size"),
    "gradients": ("grad", "value_and_grad", "vjp", "jvp", "stop_gradient", "custom_vjp", "checkpoint"),
    "transforms": ("vmap", "jacfwd", "jacrev", "hessian", "linearize", "custom_jvp", "associative_scan"),
}  # fmt: skip
"""Pages of the names that `burn` itself defines, in the order of each page."""

RETURNED: Mapping[str, tuple[str, ...]] = {
    "run": ("burn.compiled.CompiledFunction", "burn.jitted.Jit"),
    "run-torch": ("burn.adapters.torch.module.CompiledModule",),
    "run-jax": ("burn.adapters.jax.calling.CompiledJax", "burn.adapters.jax.training.JaxModule"),
}
"""Classes that public functions return. Their constructors are private, their methods are not."""


def entries() -> list[Entry]:
    """Every public name once, in the order of the pages."""
    context()
    found: dict[str, Entry] = {}
    for entry in _all():
        found.setdefault(entry.name, entry)
    return list(found.values())


def _all() -> Iterator[Entry]:
    for page, names in CORE.items():
        yield from (Entry(f"burn.{name}", getattr(burn, name), page) for name in names)
    for page, paths in RETURNED.items():
        yield from (Entry(path, _attribute(path), page) for path in paths)
    for name in NAMES:
        yield Entry(f"burn.{name}", getattr(burn, name), f"tensor-{home(name)}")
    for name in dir(errors):
        value = getattr(errors, name)
        if not name.startswith("_") and getattr(value, "__module__", "") == errors.__name__ and inspect.isclass(value):
            yield Entry(f"burn.errors.{name}", value, "errors")
    for name in nn.__all__:
        value = getattr(nn, name)
        if not inspect.ismodule(value):
            yield Entry(f"burn.nn.{name}", value, layer_page(value))
    for path, page in MODULES.items():
        module = import_module(path)
        for name in public(module):
            yield Entry(f"{path}.{name}", getattr(module, name), page)
    for name in ops.names():
        function = getattr(ops, name)
        yield Entry(f"burn.ops.{name}", function, f"ops-{family(name)}")


def public(module: ModuleType) -> list[str]:
    """The names that a module offers, without modules, which have pages of their own."""
    if module is train.events:
        return [event.__name__ for event in typing.get_args(train.Event)]
    own = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    names = getattr(module, "__all__", [n for n in own if not n.startswith("_")])
    return [name for name in names if not inspect.ismodule(getattr(module, name))]


def home(name: str) -> str:
    """The module of burn.tensors that defines a tensor function: "math"."""
    function = FREE[name] if name in FREE else getattr(burn.Tensor, name)
    return function.__module__.rpartition(".")[2]


def layer_page(value: Any) -> str:
    """Page of a name in `burn.nn`: for the file that defines it, losses on one page."""
    module = value.__module__.removeprefix("burn.nn.")
    return "nn-loss" if module.startswith("loss") else f"nn-{module}"


def family(name: str) -> str:
    """The dialect's file that defines an op: "pointwise"."""
    from burn.dialect.op import REGISTRY

    cls = REGISTRY.get(name) or REGISTRY[name.removesuffix("_")]
    return cls.__module__.removeprefix("burn.dialect.").replace(".", "-")


def aliases() -> dict[str, str]:
    """Second names of the same object: "burn.TypeMismatch" -> "burn.errors.TypeMismatch"."""
    known = {id(entry.value): entry.name for entry in entries() if entry.kind != "data"}
    names = {name: f"burn.{name}" for name in burn.__all__ if not inspect.ismodule(getattr(burn, name))}
    listed = {entry.name for entry in entries()}
    return {path: known[id(getattr(burn, name))] for name, path in names.items() if path not in listed}


def members(cls: type) -> dict[str, Any]:
    """The public methods and properties of a class, those of its private bases among them, by name."""
    found: dict[str, Any] = {}
    for base in cls.__mro__:
        if base is cls or (base.__name__.startswith("_") and base.__module__.startswith("burn")):
            for name, value in vars(base).items():
                if not name.startswith("_") and name not in found and _is_member(value):
                    found[name] = value
    return found


def _is_member(value: Any) -> bool:
    return (
        inspect.isfunction(value)
        or isinstance(value, (classmethod, staticmethod, property))
        or (type(value).__name__ == "cached_property")
    )


def signature_of(function: Any) -> str:
    """A signature without the quotes that annotations come in, and without addresses; "" if there is none."""
    try:
        text = str(inspect.signature(function))
    except (TypeError, ValueError):
        return ""
    text = re.sub(r"<(?:function|built-in function|class) '?([\w.]+)'?(?: at 0x\w+)?>", r"\1", text)
    text = re.sub(r"<object object at 0x\w+>", "...", text)
    text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", text)
    return re.sub(r"\bburn(?:\.\w+)+\.([A-Z]\w*)", r"\1", text)  # classes without the modules that hold them


def _following(name: str) -> str:
    """The string after an assignment in the file of a module, or of the private module that the name is imported from."""
    path, _, last = name.rpartition(".")
    for module in [import_module(path), *(m for m in sys.modules.values() if m.__name__.startswith(f"{path}."))]:
        if last not in vars(module) or not getattr(module, "__file__", None):
            continue
        body = ast.parse(inspect.getsource(module)).body
        for statement, after in itertools.pairwise(body):
            targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
            if any(isinstance(t, ast.Name) and t.id == last for t in targets):
                value = getattr(after, "value", None)
                if isinstance(value, ast.Constant) and isinstance(value.value, str):
                    return inspect.cleandoc(value.value)
    return ""


def _attribute(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)
