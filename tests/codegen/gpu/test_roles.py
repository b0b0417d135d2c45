"""Attention for cards whose warps have roles: which kernels are printed so, and that they compile. Numbers: tests/gpu."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from burn.codegen.cpu.kernels import KernelPrinter
from burn.codegen.cpu.target import TARGETS
from burn.codegen.triton import images
from burn.codegen.triton.abilities import Abilities
from burn.codegen.triton.backend import GPU
from burn.codegen.triton.copied import BYTES, matrix
from burn.codegen.triton.heuristics.sizes import usual_sizes
from burn.codegen.triton.images import Machine, Source
from burn.codegen.triton.launches import CardKernels
from burn.dialect import ops
from burn.dialect.adjoint import gradients
from burn.dialect.dims import Dim, Expr, LoopVar, symbol
from burn.dialect.mlir import context
from burn.dialect.program import Program
from burn.dialect.types import TensorType
from burn.kernels.body import Load
from burn.kernels.text import groups
from burn.passes import pipeline
from burn.passes.environment import Environment

pytest.importorskip("triton")

HOPPER = Machine("cuda", 90, 32)
SHARED = 227 * 1024
ROLES = "gl.warp_specialize("


@pytest.fixture(autouse=True)
def _processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Triton's compiler does not work any more in a process that has interpreted kernels."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("BURN_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(images, "ALONE", 0)


@dataclass(frozen=True)
class Attention:
    """s, t: queries and keys; h on g heads of d features; back: with its gradients; turned: [b, s, h, d] comes in."""

    s: Dim = 4096
    t: Dim = 4096
    h: int = 2
    g: int = 2
    d: int = 64
    dtype: str = "bfloat16"
    back: bool = False
    turned: bool = False
    mask: bool = False
    settings: dict[str, Any] = field(default_factory=lambda: {"causal": True})

    def program(self) -> Program:
        shapes = [(2, n, s, self.d) for n, s in ((self.h, self.s), (self.g, self.t), (self.g, self.t))]
        shapes = [(b, s, h, d) for b, h, s, d in shapes] if self.turned else shapes
        given = [(name, TensorType(self.dtype, shape)) for name, shape in zip("qkv", shapes, strict=True)]
        given += [("owed", TensorType(self.dtype, (2, self.h, self.s, self.d)))] if self.back else []
        given += [("mask", TensorType(self.dtype, (self.s, self.t)))] if self.mask else []
        program = Program.create(given)
        inputs = dict(zip((name for name, _ in given), program.inputs, strict=True))
        with program.building("node"):
            sides = [inputs[name] for name in "qkv"]
            read = [ops.transpose(x, permutation=(0, 2, 1, 3)) for x in sides] if self.turned else sides
            y = ops.attention(*read, inputs.get("mask"), None, scale=0.125, **self.settings)
            made = [("y", y)]
            if self.back:
                owed = zip("qkv", gradients([y], [inputs["owed"]], sides), strict=True)
                made += [(f"d{name}", x) for name, x in owed if x is not None]
        program.finish(made)
        return program

    def sources(self, architecture: str = "sm_90", *, in_place: bool = False) -> list[Source]:
        return sources_of(self.program(), architecture, in_place=in_place)


def sources_of(program: Program, architecture: str = "sm_90", *, in_place: bool = False) -> list[Source]:
    pipeline.run(pipeline.parse(GPU().passes), program, Environment(GPU()))
    with context():
        found = list(groups(program.block))
        written = {result for group in found for result in group.operation.results} if in_place else set()
        host = KernelPrinter(TARGETS["generic"])
        kernels = CardKernels(host, written, Abilities.of("cuda", architecture), usual=usual_sizes(program.usual))
        for group in found:
            kernels.group(group)
    assert not kernels.refused
    return kernels.sources


FITTING = {
    "heads of 64": Attention(),
    "heads of 128, and what gradients want": Attention(d=128, s=2049, t=2049, back=True),
    "shared keys, features beside heads": Attention(h=6, g=2, s=4100, t=4100, turned=True, dtype="float16"),
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
    "gradients of shared keys": (Attention(s=100, t=100, h=4, g=2, d=128, back=True), "sm_90"),
    "an older card": (Attention(), "sm_80"),
    "a newer card": (Attention(), "sm_100"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_has_no_roles(name: str) -> None:
    attention, architecture = OTHERS[name]
    texts = [source.text for source in attention.sources(architecture)]
    assert any("over the keys with a softmax" in text for text in texts)
    assert not any(ROLES in text for text in texts)


def test_they_compile() -> None:
    by_name = {name: [s for s in attention.sources() if ROLES in s.text] for name, attention in FITTING.items()}
    assert {name: len(found) for name, found in by_name.items()} == {name: 1 + a.back for name, a in FITTING.items()}
    guarded = [s for s in FITTING["heads of 64"].sources(in_place=True) if ROLES in s.text]
    assert "if gl.load(failure) != 0:" in guarded[0].text
    made = images.compile_all([*(source for found in by_name.values() for source in found), *guarded], HOPPER)
    for image in made:
        assert image.threads == 512 or image.threads == 384
        assert 100_000 < image.shared <= SHARED


def test_what_kernels_get_for_maps() -> None:
    """Two maps of each program, if both sides that are walked over can be copied by them."""
    for architecture, scratch in (("sm_90", 2 * BYTES), ("sm_80", 0)):
        found = [s for s in Attention(s=67, t=67, back=True).sources(architecture) if "is owed each." in s.text]
        assert [s.scratch for s in found] == [scratch, scratch]
        assert all(("make_tensor_descriptor" in s.text) == bool(scratch) for s in found)


def test_more_scratch_memory_than_a_kernel_says_is_refused() -> None:
    (source, *_) = [s for s in Attention(s=67, t=67, back=True).sources() if s.scratch]
    (made,) = images.compile_each([replace(source, scratch=BYTES)], HOPPER)
    assert isinstance(made, str) and "256 bytes of scratch memory, it gets 128" in made


# ---- products ---------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Product:
    """[m, k] by [k, n]; turned: the right side is [n, k]; owed: both sides have their depth in front; after: functions of sums;
    usual: what the names in the sizes are."""

    m: Dim = 4096
    n: int = 3072
    k: Dim = 768
    turned: bool = False
    owed: bool = False
    after: tuple[str, ...] = ()
    dtype: str = "bfloat16"
    usual: dict[str, int] = field(default_factory=dict)

    def sources(self, architecture: str = "sm_90") -> list[Source]:
        left = (self.k, self.m) if self.owed else (self.m, self.k)
        right = (self.n, self.k) if self.turned else (self.k, self.n)
        types = [TensorType(self.dtype, shape) for shape in (left, right, (self.n,))]
        program = Program.create(list(zip(("x", "y", "bias"), types, strict=True)))
        x, y, bias = program.inputs
        with program.building("node"):
            x, y = (ops.transpose(v, permutation=(1, 0)) if t else v for v, t in ((x, self.owed), (y, self.turned)))
            made = ops.dot_general(x, y, lhs_contract=(1,), rhs_contract=(0,))
            for name in self.after:
                made = ops.add(made, bias) if name == "bias" else getattr(ops, name)(made)
        program.finish([("z", made)])
        program.usual = self.usual
        return sources_of(program, architecture)


PRODUCTS = {
    "plain": (Product(), 2),
    "turned, with a bias": (Product(m=8192, n=768, turned=True, after=("bias",)), 3),
    "rows with a name": (Product(m=symbol("m") * 1024, n=768, after=("bias", "neg"), usual={"m": 8}), 3),
    "rows with a name, few": (Product(m=symbol("m") * 1024, n=768, after=("bias", "neg"), usual={"m": 4}), 2),
    "a weight's gradient": (Product(m=3072, n=768, k=symbol("m") * 1024, owed=True, usual={"m": 8}), 2),
    "odd sizes": (Product(m=4001, n=3080, k=776, turned=True, dtype="float16"), 2),
}
"""And how many groups multiply."""

OTHER_PRODUCTS = {
    "floats": (Product(dtype="float32"), "sm_90"),
    "few rows": (Product(m=64), "sm_90"),
    "a short depth": (Product(k=64), "sm_90"),
    "rows that are no multiples of 16 bytes": (Product(k=772), "sm_90"),
    "a function that Gluon has no word for": (Product(m=512, k=8192, after=("tan",)), "sm_90"),
    "an older card": (Product(), "sm_80"),
    "a newer card": (Product(), "sm_100"),
}


@pytest.mark.parametrize("name", OTHER_PRODUCTS)
def test_which_products_have_no_roles(name: str) -> None:
    product, architecture = OTHER_PRODUCTS[name]
    texts = [source.text for source in product.sources(architecture)]
    assert any("tl.dot(" in text for text in texts) and not any(ROLES in text for text in texts)


def test_products_compile() -> None:
    by_name = {name: [s for s in product.sources() if ROLES in s.text] for name, (product, _) in PRODUCTS.items()}
    groups = {name: {dict(s.named)["GROUPS"] for s in found} for name, found in by_name.items()}
    assert groups == {name: {number} for name, (_, number) in PRODUCTS.items()}
    made = images.compile_all([source for found in by_name.values() for source in found], HOPPER)
    assert all(image.shared <= SHARED for image in made)


def test_what_is_costly_behind_many_sums_is_a_kernel_of_its_own() -> None:
    """Warps that multiply would wait for it; of few sums it is not worth a launch."""
    (_, after) = (source.text for source in Product(after=("bias", "erf")).sources())
    assert "tl.erf(" in after and "tl.dot(" not in after
    (both,) = (source.text for source in Product(m=128, n=1024, after=("bias", "erf")).sources())
    assert "tl.erf(" in both and "tl.dot(" in both


# ---- matrices ---------------------------------------------------------------------------------------------------------------
ROW, COLUMN, BATCH = LoopVar("k", symbol("_0")), LoopVar("d", 64), LoopVar("b", 3)
PLACE, FEATURE, BEFORE = (Expr.of(loop) for loop in (ROW, COLUMN, BATCH))


@pytest.mark.parametrize(
    ("offset", "values", "fits"),
    [
        (BEFORE * 4096 + PLACE * 64 + FEATURE, {}, True),
        (PLACE * symbol("_1") + FEATURE, {"_1": symbol("heads") * 64}, True),
        (PLACE * symbol("_1") + FEATURE, {"_1": symbol("wide")}, False),
        (BEFORE * 4 + PLACE * 64 + FEATURE, {}, False),
        (PLACE * 60 + FEATURE, {}, False),
        (PLACE * 64 + FEATURE * 2, {}, False),
        (FEATURE * 64 + PLACE, {}, False),
        (PLACE * PLACE * 64 + FEATURE, {}, False),
        (FEATURE, {}, False),
        (0, {}, False),
    ],
)
def test_which_sides_are_matrices_that_maps_can_be_made_of(offset: Dim, values: dict[str, Dim], fits: bool) -> None:
    found = matrix(Load("float16", 0, offset), ROW, COLUMN, values)
    assert (found is not None) == fits
    if found is not None:
        assert found.begin + found.stride * PLACE + FEATURE == offset
