"""`Partition`: the layouts of a model's parameters and of its optimizers' state on a mesh."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from burn.distributed.layout import REPLICATED, Layout, largest_axis
from burn.distributed.mesh import Mesh
from burn.errors import Problem, TypeMismatch, near
from burn.nn.module import Module
from burn.nn.parameter import Parameter
from burn.optim import Optimizer

STATE = "state."
"""The names of an optimizer's state tensors begin so, before the parameter's path."""


@dataclass(frozen=True)
class Partition:
    """layouts: by identity of the parameter or buffer; what is not in it is whole on every device."""

    mesh: Mesh
    layouts: Mapping[int, Layout]
    paths: Mapping[int, str]

    @staticmethod
    def of(mesh: Mesh, model: Module, optimizers: Iterable[Optimizer]) -> Partition:
        """Raises TypeMismatch with every rule that divides no parameter, and every size that a rule's devices do not divide."""
        layouts: dict[int, Layout] = {}
        paths: dict[int, str] = {}
        named = dict(model.named_parameters())
        problems = list(_unused(mesh, named))
        for path, parameter in named.items():
            layout = by_rule(mesh, path)
            problems += [Problem(text, node=path) for text in layout.problems(_shape(parameter), mesh.sizes)]
            if not problems:
                layouts[id(parameter)] = also_divided(mesh, layout, parameter, mesh.fully_sharded)
            paths[id(parameter)] = path
        if problems:
            raise TypeMismatch(f"the mesh does not fit the model{mesh.where}", problems)
        for optimizer in optimizers:
            for name, buffer in optimizer.named_buffers().items():
                owner = next(
                    (p for path, p in optimizer.parameters.items() if name.startswith(f"{STATE}{path}.")), None
                )
                paths[id(buffer)] = name
                if owner is not None and _shape(owner) == _shape(buffer):
                    layout = layouts.get(id(owner), REPLICATED)
                    layouts[id(buffer)] = also_divided(mesh, layout, buffer, mesh.sharded_state)
        return Partition(mesh, layouts, paths)

    def of_parameter(self, parameter: Any) -> Layout:
        return self.layouts.get(id(parameter), REPLICATED)


def by_rule(mesh: Mesh, path: str) -> Layout:
    """The layout that the first fitting rule gives a parameter."""
    return next((Layout.of(axes) for pattern, axes in mesh.rules if re.search(pattern, path)), REPLICATED)


def also_divided(mesh: Mesh, layout: Layout, parameter: Parameter, along: str | tuple[str, ...] | None) -> Layout:
    """The layout, with the parameter's longest free axis divided along more mesh axes, where these divide one."""
    names = tuple(n for n in ((along,) if isinstance(along, str) else along or ()) if n not in layout.names)
    count = mesh.count(names)
    axis = largest_axis(_shape(parameter), layout, count) if count > 1 else None
    return layout if axis is None else layout.divided(axis, names)


def _shape(parameter: Parameter) -> tuple[int, ...]:
    return tuple(int(size) for size in parameter.type.shape)  # type: ignore[arg-type]  # a parameter's sizes are numbers


def _unused(mesh: Mesh, named: Mapping[str, Parameter]) -> Iterator[Problem]:
    for pattern, _ in mesh.rules:
        if not any(re.search(pattern, path) for path in named):
            yield Problem(f"the rule '{pattern}' is found in no parameter's path", hint=near(pattern, named))
