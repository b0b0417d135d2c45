"""From a module and example inputs to an exported program, with sizes that vary under the user's names. Enter at `export`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from burn.errors import ModelError, Problem
from burn.importers.torch.containers import know_caches
from burn.importers.torch.lstm_states import sized_states
from burn.importers.torch.noise import quiet
from burn.importers.torch.questions import Answer, listening
from burn.importers.torch.sizes import expression_of

LEAST = 2
"""torch takes sizes 0 and 1 for fixed, so that an example of a size that varies must be larger."""


@dataclass
class Exported:
    """An exported program, the user's names for torch's size symbols, and what the module asked about sizes."""

    program: ExportedProgram
    names: dict[str, str] = field(default_factory=dict)
    answers: Sequence[Answer] = ()


@dataclass(frozen=True)
class Varying:
    """One axis of one tensor among the inputs whose size varies."""

    leaf: int
    axis: int
    name: str
    path: str
    given: Any  # what the user wrote: a name, or a torch.export.Dim


def export(
    module: torch.nn.Module,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    dynamic: Mapping[Any, Any] | None = None,
) -> Exported:
    """Exports `module(*args, **kwargs)`.

    `dynamic`: {"x": {0: "batch"}} by an argument's name or position. If an argument holds several tensors (a tuple, a
    dict, a cache), the axes apply to all tensors in it. A mapping or sequence of the same structure gives them one by one. Raises
    ModelError for names that fit no argument, sizes that the module fixes, and modules that torch.export refuses."""
    if isinstance(module, torch.jit.ScriptModule):
        hint = "give the torch.nn.Module that it was made from"
        raise ModelError(
            "a TorchScript module cannot be compiled", [Problem("torch.export does not take it", hint=hint)]
        )
    know_caches()
    positional, by_name = tuple(args), dict(kwargs or {})
    leaves, spec = pytree.tree_flatten((positional, by_name))
    if any(isinstance(leaf, str) and "[" in leaf for leaf in leaves):
        hint = "torch runs the module on them; dynamic={...} names the sizes that vary"
        raise ModelError("a PyTorch module is compiled with tensors as examples", [Problem("not types", hint=hint)])
    _check_layouts(positional, by_name)
    varying = _varying(module, positional, by_name, dynamic or {})
    leaves = _enlarged(leaves, varying)
    positional, by_name = pytree.tree_unflatten(leaves, spec)
    shapes = None
    if varying:
        collection = torch.export.ShapesCollection()
        leaves = pytree.tree_leaves((positional, by_name))
        for leaf in dict.fromkeys(v.leaf for v in varying):
            collection[leaves[leaf]] = {v.axis: _dim(v.given) for v in varying if v.leaf == leaf}
        shapes = collection.dynamic_shapes(module, positional, by_name)
    try:
        with torch.no_grad(), quiet(), _without_onednn(), sized_states(), listening() as answers:
            program = torch.export.export(module, positional, by_name, dynamic_shapes=shapes, strict=False)
    except Exception as error:
        text = str(error).strip()
        hint = "torch.export cannot write this module down; see https://docs.pytorch.org/docs/stable/export.html"
        raise ModelError(f"{type(module).__name__} cannot be exported", [Problem(text, hint=hint)]) from error
    return Exported(program, _names(program, varying), answers)


@contextmanager
def _without_onednn() -> Iterator[None]:
    """Without oneDNN: the fake results of its recurrent layers have an axis too many in torch 2.11. `torch.backends.mkldnn.flags`
    would also set its precisions, which warns."""
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


def _check_layouts(positional: tuple[Any, ...], by_name: dict[str, Any]) -> None:
    """Raises ModelError for examples that are nested or sparse tensors."""
    problems = []
    for examples in (positional, by_name):
        for path, leaf in pytree.tree_flatten_with_path(examples)[0]:
            if not isinstance(leaf, torch.Tensor) or (leaf.layout is torch.strided and not leaf.is_nested):
                continue
            kind, hint = f"a tensor of layout {leaf.layout}", "use its to_dense()"
            if leaf.is_nested:
                kind, hint = "a nested tensor", "pad it: torch.nested.to_padded_tensor"
            problems.append(
                Problem(f"argument {pytree.keystr(path)} is {kind}; only dense tensors can be used", hint=hint)
            )
    if problems:
        raise ModelError("the examples cannot be inputs", problems)


def _dim(given: Any) -> Any:
    return torch.export.Dim.AUTO if isinstance(given, str) else given


# ---- which sizes vary ---------------------------------------------------------------------------------------------------
def _varying(module: torch.nn.Module, args: tuple, kwargs: dict[str, Any], dynamic: Mapping[Any, Any]) -> list[Varying]:
    import inspect

    names = list(inspect.signature(module.forward).parameters)
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    first = dict(zip(given, _offsets(args, kwargs), strict=False))
    problems: list[Problem] = []
    found: list[Varying] = []
    for key, sizes in dynamic.items():
        name = names[key] if isinstance(key, int) and key < len(args) else key
        if name not in given:
            hint = f"the inputs are {', '.join(given)}"
            problems.append(
                Problem(f"dynamic names {key!r}, which is no input that an example was given for", hint=hint)
            )
            continue
        leaves, _ = pytree.tree_flatten_with_path(given[name])
        before = len(found) + len(problems)
        for offset, (path, leaf) in enumerate(leaves):
            where = f"{name}{pytree.keystr(path)}"
            axes = _axes_of(sizes, path)
            if axes is None or not isinstance(leaf, torch.Tensor):
                continue
            for axis, size in axes.items():
                if not -leaf.ndim <= axis < leaf.ndim:
                    problems.append(Problem(f"'{where}' of shape {list(leaf.shape)} has no axis {axis} to be dynamic"))
                    continue
                label = size if isinstance(size, str) else getattr(size, "__name__", f"{name}_{axis}")
                found.append(Varying(first[name] + offset, axis % leaf.ndim, label, where, size))
        if sizes and before == len(found) + len(problems):
            hint = f"dynamic={{{name!r}: {{0: 'batch'}}}} names axis 0"
            problems.append(Problem(f"{sizes!r} names no axis of a tensor in '{name}'", hint=hint))
    problems += _contradictions(found, pytree.tree_leaves((args, kwargs)))
    if problems:
        raise ModelError("the dynamic sizes do not fit the example inputs", problems)
    return found


def _contradictions(varying: Sequence[Varying], leaves: Sequence[Any]) -> list[Problem]:
    """Names that stand for several sizes in the examples."""
    axes_of: dict[str, dict[int, str]] = {}
    for v in varying:
        size = leaves[v.leaf].shape[v.axis]
        axes_of.setdefault(v.name, {}).setdefault(size, f"{size} in '{v.path}' axis {v.axis}")
    hint = "one name is one size: give sizes that may differ names of their own"
    return [
        Problem(f"'{name}' is {' and '.join(found.values())}", hint=hint)
        for name, found in axes_of.items()
        if len(found) > 1
    ]


def _offsets(args: tuple, kwargs: dict[str, Any]) -> list[int]:
    """Where each argument's leaves begin among all."""
    counts = [len(pytree.tree_leaves(a)) for a in (*args, *kwargs.values())]
    return [sum(counts[:i]) for i in range(len(counts))]


def _axes_of(sizes: Any, path: Sequence[Any]) -> Mapping[int, Any] | None:
    """The axes that vary of one tensor, found along its path; {axis: name} holds for all below."""
    if sizes is None:
        return None
    if (
        isinstance(sizes, Mapping)
        and all(isinstance(k, int) for k in sizes)
        and not any(isinstance(v, (Mapping, list, tuple)) for v in sizes.values())
    ):
        return sizes
    if not path:
        return None
    step = getattr(path[0], "key", getattr(path[0], "idx", getattr(path[0], "name", None)))
    try:
        return _axes_of(sizes[step], path[1:])
    except (KeyError, IndexError, TypeError):
        return None


def _enlarged(leaves: list[Any], varying: list[Varying]) -> list[Any]:
    """Enlarges examples along varying sizes to the required minimum: elements are repeated, empty tensors become zeros. Every
    tensor with such sizes is a new object, so that it is distinct from all others."""
    leaves = list(leaves)
    for leaf in {v.leaf for v in varying}:
        leaves[leaf] = leaves[leaf].detach().clone()
    groups: dict[str, list[Varying]] = {}
    for v in varying:
        groups.setdefault(v.name, []).append(v)
    for group in groups.values():
        if all(leaves[v.leaf].shape[v.axis] >= LEAST for v in group):
            continue
        for v in group:
            tensor = leaves[v.leaf]
            size = tensor.shape[v.axis]
            if size == 0:
                shape = [LEAST if i == v.axis else d for i, d in enumerate(tensor.shape)]
                leaves[v.leaf] = tensor.new_zeros(shape)
            elif size < LEAST:
                leaves[v.leaf] = tensor.repeat_interleave(LEAST, v.axis)
    return leaves


def _names(program: ExportedProgram, varying: list[Varying]) -> dict[str, str]:
    """torch's symbols -> the user's names. A size that came out as a number, or as part of another, is a problem."""
    placeholders = {n.name: n for n in program.graph.nodes if n.op == "placeholder"}
    users = [placeholders[s.arg.name] for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    names: dict[str, str] = {}
    problems = []
    for v in varying:
        size = users[v.leaf].meta["val"].shape[v.axis]
        expression = expression_of(size)
        if not getattr(expression, "free_symbols", ()):
            hint = "the module computes with it as a fixed number, or it must equal a fixed size"
            problems.append(Problem(f"'{v.path}' axis {v.axis} ('{v.name}') can only be {size}", hint=hint))
        elif getattr(expression, "is_Symbol", False):
            names.setdefault(str(expression), v.name)
    if problems:
        raise ModelError("sizes that should vary are fixed by the module", problems)
    return names
