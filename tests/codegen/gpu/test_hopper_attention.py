"""Attention for GPUs with warp specialisation: the choice of kernels, and that they compile. Numbers: tests/gpu."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.images import Source, compile_all, compile_each
from burn.codegen.triton.tensor_maps import BYTES
from burn.dialect import ops
from burn.dialect.adjoint import gradients
from burn.dialect.dims import Dim, symbol
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from tests.codegen.gpu.sources import HOPPER, SHARED, sources_of, warp_specialised

pytest.importorskip("triton")
pytestmark = pytest.mark.usefixtures("processes")


@dataclass(frozen=True)
class Attention:
    """s, t: queries and keys; h on g heads of d features; back: with its gradients; turned: [b, s, h, d] comes in.
    expanded: an axis of the queries along which one element is expanded."""

    s: Dim = 4096
    t: Dim = 4096
    h: int = 2
    g: int = 2
    d: int = 64
    dtype: str = "bfloat16"
    back: bool = False
    transposed: bool = False
    mask: bool = False
    expanded: int = 0
    settings: dict[str, Any] = field(default_factory=lambda: {"causal": True})

    def program(self) -> Program:
        shapes: list[tuple[Dim, ...]] = [
            (2, n, s, self.d) for n, s in ((self.h, self.s), (self.g, self.t), (self.g, self.t))
        ]
        shapes = [(b, s, h, d) for b, h, s, d in shapes] if self.transposed else shapes
        whole = shapes[0]
        shapes[0] = tuple(1 if self.expanded and n == self.expanded else size for n, size in enumerate(whole))
        given = [(name, TensorType(self.dtype, shape)) for name, shape in zip("qkv", shapes, strict=True)]
        given += [("cotangent", TensorType(self.dtype, (2, self.h, self.s, self.d)))] if self.back else []
        given += [("mask", TensorType(self.dtype, (self.s, self.t)))] if self.mask else []
        program = Program.create(given)
        inputs = dict(zip((name for name, _ in given), program.inputs, strict=True))
        with program.building("node"):
            qkv = [inputs[name] for name in "qkv"]
            qkv[0] = ops.broadcast_to(qkv[0], shape=whole) if self.expanded else qkv[0]
            read = [ops.transpose(x, permutation=(0, 2, 1, 3)) for x in qkv] if self.transposed else qkv
            y = ops.attention(*read, inputs.get("mask"), None, scale=0.125, **self.settings)
            made = [("y", y)]
            if self.back:
                cotangent = zip("qkv", gradients([y], [inputs["cotangent"]], qkv), strict=True)
                made += [(f"d{name}", x) for name, x in cotangent if x is not None]
        program.finish(made)
        return program

    def sources(self, architecture: str = "sm_90", *, in_place: bool = False) -> list[Source]:
        return sources_of(self.program(), Abilities.of("cuda", architecture), in_place=in_place)


FITTING = {
    "heads of 64": Attention(),
    "heads of 128, and what gradients want": Attention(d=128, s=2049, t=2049, back=True),
    "shared keys, features beside heads": Attention(h=6, g=2, s=4100, t=4100, transposed=True, dtype="float16"),
    "one head of queries": Attention(expanded=1),
    "no place is hidden": Attention(d=80, s=2500, t=3000, settings={}),
    "behind a prefix": Attention(d=128, s=2048, t=5000, settings={"causal": True, "offset": 2952}),
}

OTHERS = {
    "floats": (Attention(dtype="float32"), "sm_90"),
    "few rows": (Attention(s=128, t=8192), "sm_90"),
    "few keys": (Attention(s=8192, t=128), "sm_90"),
    "sizes that are known late": (Attention(s=symbol("s"), t=symbol("s")), "sm_90"),
    "heads of 32": (Attention(d=32), "sm_90"),
    "a mask": (Attention(mask=True, settings={}), "sm_90"),
    "a window": (Attention(settings={"causal": True, "left": 100}), "sm_90"),
    "a cap": (Attention(settings={"softcap": 2.0}), "sm_90"),
    "rows that are no multiples of 16 bytes": (Attention(d=60), "sm_90"),
    "one row of queries": (Attention(expanded=2), "sm_90"),
    "one feature of queries": (Attention(expanded=3), "sm_90"),
    "gradients of shared keys": (Attention(s=100, t=100, h=4, g=2, d=128, back=True), "sm_90"),
    "an older GPU": (Attention(), "sm_80"),
    "a newer GPU": (Attention(), "sm_100"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_specialised(name: str) -> None:
    attention, architecture = OTHERS[name]
    sources = attention.sources(architecture)
    assert any("over the keys with an online softmax" in source.text for source in sources) and not warp_specialised(
        sources
    )


QUICK = ("heads of 128, and what gradients want", "no place is hidden")
"""Compiled in every run, and heads of 64, where a kernel may find that another failed. tests/gpu compiles and runs the others."""


def test_they_fit() -> None:
    by_name = {name: warp_specialised(attention.sources()) for name, attention in FITTING.items()}
    assert {name: len(found) for name, found in by_name.items()} == {name: 1 + a.back for name, a in FITTING.items()}


@pytest.mark.parametrize(
    "name", [None, *(pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in FITTING)]
)
def test_they_compile(name: str | None) -> None:
    found = warp_specialised(FITTING[name or "heads of 64"].sources(in_place=name is None))
    assert ("if gl.load(failure) != 0:" in found[0].text) == (name is None)
    for image in compile_all(found, HOPPER):
        assert image.threads == 512 or image.threads == 384
        assert 100_000 < image.shared <= SHARED


def test_what_kernels_get_for_maps() -> None:
    """Two maps of each program, if TMA can copy both operands of the inner loop."""
    for architecture, scratch in (("sm_90", 2 * BYTES), ("sm_80", 0)):
        found = [s for s in Attention(s=134, t=134, back=True).sources(architecture) if '"""The gradients of' in s.text]
        assert [s.scratch for s in found] == [scratch, scratch]
        assert all(("make_tensor_descriptor" in s.text) == bool(scratch) for s in found)


def test_more_scratch_memory_than_a_kernel_says_is_refused() -> None:
    (source, *_) = [s for s in Attention(s=67, t=67, back=True).sources() if s.scratch]
    (made,) = compile_each([replace(source, scratch=BYTES)], HOPPER)
    assert isinstance(made, str) and "256 bytes of scratch memory instead of 128" in made
