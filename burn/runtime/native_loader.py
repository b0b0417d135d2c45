"""Loads artefacts of machine code into the native runtime: the loader of CPUs and GPUs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from burn.errors import Problem
from burn.runtime import _native, libraries, sizes
from burn.runtime.artefact import CONTAINERS, Artefact, Signature, Target, ValueSpec
from burn.runtime.dtypes import CODES, numpy_dtype
from burn.runtime.host import missing_features

if TYPE_CHECKING:
    from burn.runtime.device import Device


class NativeLoader:
    """See `Loader`."""

    def cannot_run(self, target: Target, device: Device) -> list[Problem]:
        if target.kind != device.kind:
            return device.cannot_run(target)
        return missing_features(target) + device.cannot_run(target)

    def load(self, artefact: Artefact, device: Device) -> _native.Program:
        """Raises ValueError for code that cannot be loaded."""
        libraries.open_all(artefact.libraries)
        signature, memory = artefact.signature, device.memory
        aliases = [-1] * len(signature.outputs)
        for index, spec in enumerate(signature.inputs):
            if spec.donated_to is not None:
                aliases[spec.donated_to] = index
        inputs = list(zip([numpy_dtype(spec.dtype) for spec in signature.inputs], _patterns(signature), strict=True))
        if signature.random_state:
            inputs.append((np.dtype(np.uint64), [2]))
        return _native.Program(
            artefact.code,
            artefact.entry,
            constants=[constant.data for constant in artefact.constants],
            live_ranges=list(artefact.live_ranges),
            inputs=inputs,
            outputs=[numpy_dtype(spec.dtype) for spec in signature.outputs],
            kernel_count=len(artefact.kernels),
            aliases=aliases,
            input_containers=_containers(signature.inputs) + [("", 0)] * signature.random_state,
            output_containers=_containers(signature.outputs),
            texts=[(i, math.prod(c.shape)) for i, c in enumerate(artefact.constants) if c.dtype == "string"],
            device=device.native_spec,
            images=[(i.name, i.data, i.shared, i.threads, i.early) for i in artefact.images],
            sites=() if memory.is_host else artefact.sites,
            input_names=[spec.name for spec in signature.inputs],
        )


def loader() -> NativeLoader:
    return NativeLoader()


def _patterns(signature: Signature) -> list[list[int]]:
    """The inputs' sizes for the native check: a number, or -1 - s for the s-th symbol. The program itself checks
    expressions."""
    symbols: dict[str, int] = {}

    def pattern(dim: int | str) -> int:
        if isinstance(dim, int):
            return dim
        return -1 - symbols.setdefault(dim.strip(), len(symbols)) if sizes.parse(dim).is_symbol else _native.ANY_DIM

    return [[pattern(dim) for dim in spec.dims] for spec in signature.inputs]


def _containers(specs: Sequence[ValueSpec]) -> list[tuple[str, int]]:
    """Containers of values in the form that the native runtime reads."""
    return [
        ("".join(CONTAINERS[kind] for kind in spec.containers) + "*" * spec.any_rank, CODES.index(spec.dtype))
        for spec in specs
    ]
