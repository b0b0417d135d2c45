"""Custom ops whose bodies are Triton kernels: on a simulated GPU, and through Triton's compiler."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import burn
from burn.custom import Launch, scratch

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")

if importlib.util.find_spec("triton") is not None:
    import triton
    import triton.language as tl

    SHIFT: tl.constexpr = tl.constexpr(1.0)

    @triton.jit
    def moved(x, by):
        return x * by + SHIFT

    @triton.jit
    def scale_kernel(x, out, n, by, BLOCK: tl.constexpr):
        """out = x * by + SHIFT."""
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, moved(tl.load(x + at, mask=at < n), by), mask=at < n)

    @triton.jit
    def sums_kernel(x, sums, rows, columns, BLOCK: tl.constexpr):
        row = tl.program_id(0)
        total = tl.zeros((), tl.float32)
        for first in range(0, columns, BLOCK):
            at = first + tl.arange(0, BLOCK)
            total += tl.sum(tl.load(x + row * columns + at, mask=at < columns, other=0.0), 0)
        tl.store(sums + row, total)

    @triton.jit
    def divide_kernel(x, sums, out, columns, n, BLOCK: tl.constexpr):
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(out + at, tl.load(x + at, mask=at < n) / tl.load(sums + at // columns, mask=at < n), mask=at < n)

    @triton.jit
    def attention_kernel(q, k, v, out, length, scale, HEAD: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
        """Softmax attention of a block of queries, in one pass over the keys (arXiv:2205.14135)."""
        blocks = tl.cdiv(length, ROWS)
        start = (tl.program_id(0) // blocks) * length
        row = (tl.program_id(0) % blocks) * ROWS + tl.arange(0, ROWS)
        feature = tl.arange(0, HEAD)
        at = (start + row)[:, None] * HEAD + feature[None, :]
        query = tl.load(q + at, mask=row[:, None] < length, other=0.0) * scale
        best = tl.full((ROWS,), -1e30, tl.float32)
        weight = tl.zeros((ROWS,), tl.float32)
        total = tl.zeros((ROWS, HEAD), tl.float32)
        for first in range(0, length, COLUMNS):
            column = first + tl.arange(0, COLUMNS)
            of = (start + column)[:, None] * HEAD + feature[None, :]
            key = tl.load(k + of, mask=column[:, None] < length, other=0.0)
            value = tl.load(v + of, mask=column[:, None] < length, other=0.0)
            scores = tl.dot(query, tl.trans(key), input_precision="ieee")
            scores = tl.where(column[None, :] < length, scores, -1e30)
            now = tl.maximum(best, tl.max(scores, 1))
            share = tl.exp(scores - now[:, None])
            kept = tl.exp(best - now)
            weight = weight * kept + tl.sum(share, 1)
            total = total * kept[:, None] + tl.dot(share, value, input_precision="ieee")
            best = now
        tl.store(out + at, total / weight[:, None], mask=row[:, None] < length)


PAIR: Any = (1, 2)


def scale() -> Any:
    op = burn.custom_op(
        "tests::scale", "float32[...] -> float32[...]", attributes={"by": 2.0}, parameters={"BLOCK": (64, 16)}
    )

    @op.triton
    def _(x: Any, out: Any, *, by: float, BLOCK: int) -> Launch:
        args = (x, out, x.elements, by)
        return Launch(scale_kernel, grid=-(-x.elements // BLOCK), args=args, constants={"BLOCK": BLOCK})

    @op.functions
    def _(x: Any, *, by: float, BLOCK: int) -> Any:
        return x * by + 1

    return op


def rows() -> Any:
    """Two launches, with memory between them."""
    op = burn.custom_op("tests::rows", "float32[n, k] -> float32[n, k]")

    @op.triton
    def _(x: Any, out: Any) -> list[Launch]:
        n, k = x.shape
        sums = scratch(x.type.with_shape((n,)))
        return [
            Launch(sums_kernel, grid=n, args=(x, sums, n, k), constants={"BLOCK": 8}),
            Launch(divide_kernel, grid=-(-n * k // 32), args=(x, sums, out, k, n * k), constants={"BLOCK": 32}),
        ]

    return op


def attention() -> Any:
    op = burn.custom_op("tests::attention", "T[b, n, d], T[b, n, d], T[b, n, d] -> T[b, n, d]")

    @op.triton
    def _(q: Any, k: Any, v: Any, out: Any) -> Launch:
        batch, length, head = q.shape
        return Launch(
            attention_kernel,
            grid=batch * (-(-length // 16)),
            args=(q, k, v, out, length, float(head) ** -0.5),
            constants={"HEAD": head, "ROWS": 16, "COLUMNS": 16},
        )

    return op


def test_programs_with_named_sizes(gpu: Any) -> None:
    first, second = scale(), rows()
    program = burn.compile(lambda x: second(first(x * 2, by=3.0) - 1) + 1, {"x": "float32[n, k]"}, device="cuda")
    for shape in ((1, 1), (3, 7), (13, 5), (2, 64)):
        x = np.random.default_rng(shape[0]).random(shape, np.float32) + 1
        want = x / x.sum(1, keepdims=True) + 1
        np.testing.assert_allclose(program(x), want, rtol=1e-5)
    assert program(np.zeros((0, 4), np.float32)).shape == (0, 4)
    assert {kernel.kind for kernel in program.artefact.kernels if kernel.name.startswith("tests::")} == {"triton"}
    assert not [kernel for kernel in program.artefact.kernels if kernel.kind == "host"]


def test_attention(gpu: Any) -> None:
    program = burn.compile(attention(), ["float32[b, n, 16]"] * 3, device="cuda")
    for batch, length in ((1, 1), (2, 16), (3, 19)):
        q, k, v = np.random.default_rng(length).standard_normal((3, batch, length, 16)).astype(np.float32)
        scores = q.astype(np.float64) @ k.transpose(0, 2, 1) / 4
        share = np.exp(scores - scores.max(-1, keepdims=True))
        want = share / share.sum(-1, keepdims=True) @ v
        np.testing.assert_allclose(program(q, k, v), want, rtol=1e-4, atol=1e-5)


def test_a_training_step_stays_on_the_gpu(gpu: Any) -> None:
    op = scale()
    op.vjp(lambda g, y, x, *, by: g * by)
    from burn import nn, optim

    burn.manual_seed(0)
    net = nn.Linear(3, 2).to("cuda")
    step = burn.train.step(net, lambda net, x: (op(net(x)) ** 2).mean(), optim.SGD(net, 0.01))
    losses = [float(step(np.ones((4, 3), np.float32))) for _ in range(5)]
    assert losses[-1] < losses[0]
    assert any(source.name == "custom_scale_kernel" for source in gpu.launched)


def test_parameters_and_hosts(gpu: Any) -> None:
    op = scale()
    x = np.arange(70, dtype=np.float32)
    for block in (64, 16):
        op.set_parameters(BLOCK=block)
        np.testing.assert_allclose(burn.compile(op, ["float32[n]"], device="cuda")(x), 2 * x + 1)
    python = burn.custom_op("tests::onhost", "float32[n] -> float32[n]")
    python.python(lambda x: x[::-1])
    program = burn.compile(lambda x: python(x * 2) + 1, {"x": "float32[n]"}, device="cuda")
    np.testing.assert_allclose(program(x), 2 * x[::-1] + 1)
    assert [kernel.name for kernel in program.artefact.kernels if kernel.kind == "host"] == ["python: tests::onhost"]
    native = burn.custom_op("tests::native", "float32[n] -> float32[n]").c(
        '#include "burn_custom.h"\nint f(const burn_custom_call *c) {'
        " memcpy(c->output[0].data, c->input[0].data, c->input[0].elements * 4); return 0; }",
        "f",
    )
    np.testing.assert_allclose(burn.compile(native, ["float32[n]"], device="cuda")(x), x)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (lambda x, y: None, "returned None"),
        (lambda x, y: 1 / 0, "raised ZeroDivisionError"),
        (lambda x, y: Launch(print, grid=1, args=()), "no kernel of @triton.jit"),
        (lambda x, y: Launch(scale_kernel, grid=1, args=(x, y)), "2 arguments are given"),
        (lambda x, y: Launch(scale_kernel, grid=PAIR, args=(x, y, 1, 1.0), constants={"BLOCK": 8}), "one number"),
        (lambda x, y: Launch(scale_kernel, grid=1, args=(x, y, 1, 1.0), constants={"BLOK": 8}), "no parameter 'BLOK'"),
        (
            lambda x, y: Launch(scale_kernel, grid=1, args=(x, "y", 1, 1.0), constants={"BLOCK": 8}),
            "buffer or a number",
        ),
        (lambda x, y: Launch(scale_kernel, grid=1, args=(x, y, 1, 1.0), constants={"BLOCK": [8]}), r"is \[8\]"),
    ],
)
def test_bodies_that_are_wrong(gpu: Any, body: Any, message: str) -> None:
    op = burn.custom_op("tests::wrong", "float32[n] -> float32[n]")
    op.triton(body)
    with pytest.raises(burn.CompileError, match=message) as caught:
        burn.compile(op, ["float32[n]"], device="cuda")
    assert "tests::wrong" in str(caught.value)


def test_the_compiler_takes_them(processes: None) -> None:
    from burn.codegen.triton.custom import prepared
    from burn.codegen.triton.images import compile_all
    from burn.codegen.triton.launches import MULTIPLES, POINTERS
    from burn.dialect.custom import Custom
    from burn.dialect.mlir import context
    from burn.tracing.trace import trace
    from tests.codegen.gpu.sources import HOPPER

    sources = []
    for op, count, type_ in (
        (scale(), 1, "float32[n]"),
        (rows(), 1, "float32[n, k]"),
        (attention(), 3, "float32[b, n, 32]"),
    ):
        program = trace(op, {f"x{i}": type_ for i in range(count)})
        with context():
            (custom,) = [o.opview for o in program.block.operations if isinstance(o.opview, Custom)]
            sources += [each.source for each in prepared(custom, POINTERS, MULTIPLES)]
    assert [image.name for image in compile_all(sources, HOPPER)] == [source.name for source in sources]
