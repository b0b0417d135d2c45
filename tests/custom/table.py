"""Kinds of bodies of custom ops by where an op is used: `KINDS`, `COLUMNS`, `ERRORS`. Each cell works, or is a named error.

The op of every kind computes y = gain * x * x of float32[n]. `check` runs one cell. tests/custom/test_table.py and
tests/gpu/test_custom_ops_gpu.py run the table. The guide's is written by

    python -m tests.custom.table
"""

from __future__ import annotations

import functools
import importlib.util
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import burn
from burn.custom import CustomOp, Launch
from burn.custom.native import HEADER

HAS_TRITON = importlib.util.find_spec("triton") is not None

if HAS_TRITON:
    import triton
    import triton.language as tl

    @triton.jit
    def square_kernel(x, y, n, gain, BLOCK: tl.constexpr):
        """y = gain * x * x."""
        at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        value = tl.load(x + at, mask=at < n)
        tl.store(y + at, value * value * gain, mask=at < n)


C = r"""#include "burn_custom.h"
int square(const burn_custom_call *call) {
    float gain = (float)burn_custom_float(call, "gain", 1);
    const float *x = (const float *)call->input[0].data;
    float *y = (float *)call->output[0].data;
    for (int64_t i = 0; i < call->input[0].elements; i++)
        y[i] = gain * x[i] * x[i];
    return 0;
}"""

CPP = r"""#include "burn_custom.h"
#include <algorithm>
int square(const burn_custom_call *call) {
    const float gain = static_cast<float>(burn_custom_float(call, "gain", 1));
    const float *x = static_cast<const float *>(call->input[0].data);
    std::transform(x, x + call->input[0].elements, static_cast<float *>(call->output[0].data),
                   [gain](float v) { return gain * v * v; });
    return 0;
}"""

GAIN = 0.5
X = np.array([0.0, 1.0, -2.0, 3.0, 0.25, -1.5, 7.0], np.float32)


def expected(x: np.ndarray, gain: float = GAIN) -> np.ndarray:
    return (gain * x.astype(np.float64) ** 2).astype(x.dtype)


# ---- kinds -------------------------------------------------------------------------------------------------------------
def _functions(op: CustomOp) -> None:
    op.functions(lambda x, *, gain: x * x * gain)


def _c(op: CustomOp) -> None:
    op.c(C, "square")


def _cpp(op: CustomOp) -> None:
    op.c(CPP, "square", language="c++")


def _object(op: CustomOp) -> None:
    op.c(object_file(), "square")


def _triton(op: CustomOp) -> None:
    @op.triton
    def _(x: Any, y: Any, *, gain: float) -> Launch:
        return Launch(square_kernel, -(-x.elements // 64), (x, y, x.elements, gain), {"BLOCK": 64})


def _python(op: CustomOp) -> None:
    op.python(lambda x, *, gain: (x * x * np.float32(gain)).astype(np.float32))


@functools.cache
def object_file() -> Path:
    """C as an object for this machine."""
    import atexit
    import shutil
    import tempfile

    from burn import toolchain
    from burn.toolchain import platforms

    folder = Path(tempfile.mkdtemp(prefix="burn-object-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / "square.c").write_text(C)
    (made,) = toolchain.find(platforms.find()).compile([folder / "square.c"], folder, [f"-I{HEADER.parent}"])
    return made.rename(folder / "square_body.o")


KINDS: dict[str, Callable[[CustomOp], None]] = {
    "burn functions": _functions,
    "C source": _c,
    "C++ source": _cpp,
    "object file": _object,
    "Triton kernel": _triton,
    "Python callable": _python,
}


def made(kind: str) -> CustomOp:
    """The op with one body of a kind, and unless that is of burn functions a rule for its derivative."""
    op = burn.custom_op("tests.table::square", "float32[n] -> float32[n]", attributes={"gain": 1.0})
    KINDS[kind](op)
    if kind != "burn functions":
        op.vjp(lambda g, y, x, *, gain: g * x * (2 * gain))
    return op


# ---- columns -----------------------------------------------------------------------------------------------------------
def _lazy(op: CustomOp, folder: Path) -> None:
    np.testing.assert_allclose((op(burn.tensor(X) + 1, gain=GAIN) - 1).numpy(), expected(X + 1) - 1, rtol=1e-6)


def _jit(op: CustomOp, folder: Path) -> None:
    function = burn.jit(lambda x: op(x * 2, gain=GAIN) + 1)
    for size in (1, 7, 0):
        np.testing.assert_allclose(function(X[:size]), expected(X[:size] * 2) + 1, rtol=1e-6)


def _grad(op: CustomOp, folder: Path) -> None:
    gradient = burn.jit(burn.grad(lambda x: (op(x, gain=GAIN) * x).sum()))  # of gain * x^3
    np.testing.assert_allclose(gradient(X), 3 * GAIN * X**2, rtol=1e-6)
    second = burn.jit(burn.grad(lambda x: burn.grad(lambda x: (op(x, gain=GAIN) * x).sum())(x).sum()))
    np.testing.assert_allclose(second(X), 6 * GAIN * X, rtol=1e-6)


def _vmap(op: CustomOp, folder: Path) -> None:
    examples = np.stack([X, X + 1, X - 1])
    found = burn.jit(burn.vmap(lambda x: op(x, gain=GAIN) + 1))(examples)
    np.testing.assert_allclose(found, expected(examples) + 1, rtol=1e-6)
    each = burn.jit(burn.vmap(burn.grad(lambda x: op(x, gain=GAIN).sum())))(examples)
    np.testing.assert_allclose(each, 2 * GAIN * examples, rtol=1e-6)


def _torch(op: CustomOp, folder: Path) -> None:
    import torch

    bound = op.torch()
    torch._dynamo.reset()  # it keeps what it compiled for another kind  # pyright: ignore

    @torch.compile(backend="burn", fullgraph=True)
    def function(x: Any) -> Any:
        return (bound(x + 1, gain=GAIN) * 3).sum()

    x = torch.tensor(X, requires_grad=True)
    try:
        y = function(x)
    except torch._dynamo.exc.BackendCompilerFailed as failed:  # it holds burn's error
        raise failed.inner_exception from None  # pyright: ignore
    y.backward()
    assert x.grad is not None
    np.testing.assert_allclose(y.item(), 3 * expected(X + 1).sum(), rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), 6 * GAIN * (X + 1), rtol=1e-6)


def _jax(op: CustomOp, folder: Path) -> None:
    import jax

    bound = op.jax()
    imported = burn.from_jax(lambda x: bound(x + 1, gain=GAIN) * 3)
    np.testing.assert_allclose(burn.jit(imported)(X), 3 * expected(X + 1), rtol=1e-6)
    gradient = burn.jit(burn.grad(burn.from_jax(lambda x: bound(x, gain=GAIN).sum())))
    np.testing.assert_allclose(gradient(X), 2 * GAIN * X, rtol=1e-6)
    exported = burn.to_jax(lambda x: op(x + 1, gain=GAIN) * 3, {"x": "float32[n]"})
    np.testing.assert_allclose(jax.jit(exported)(X), 3 * expected(X + 1), rtol=1e-6)
    np.testing.assert_allclose(jax.jit(jax.grad(lambda x: bound(x, gain=GAIN).sum()))(X), 2 * GAIN * X, rtol=1e-6)


def _onnx_out(op: CustomOp, folder: Path) -> None:
    model = burn.export(lambda x: op(x, gain=GAIN) + 1, folder / "out.onnx", {"x": "float32[n]"})
    (node,) = [node for node in model.graph.node if node.domain]
    assert (node.domain, node.op_type, node.attribute[0].f) == ("tests.table", "square", GAIN)


def _onnx_in(op: CustomOp, folder: Path) -> None:
    import onnx
    from onnx import TensorProto, helper

    node = helper.make_node("square", ["x"], ["y"], domain="tests.table", gain=GAIN)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "xy"]
    graph = helper.make_graph([node], "g", values[:1], values[1:])
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("tests.table", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports), folder / "in.onnx")
    np.testing.assert_allclose(burn.load(folder / "in.onnx")(X), expected(X), rtol=1e-6)


def _exe(op: CustomOp, folder: Path) -> None:
    from burn.deploy.build import build
    from burn.tracing.trace import trace

    (command,) = build("exe", trace(lambda x: op(x, gain=GAIN) + 1, {"x": "float32[n]"}), folder / "command")
    np.savez(folder / "in.npz", x=X)
    subprocess.run([command, folder / "in.npz", "-o", folder / "out.npz"], check=True, capture_output=True)
    np.testing.assert_allclose(np.load(folder / "out.npz")["output"], expected(X) + 1, rtol=1e-6)


def _wasm(op: CustomOp, folder: Path) -> None:
    from burn.deploy.build import build
    from burn.deploy.options import Options
    from burn.toolchain import platforms
    from burn.tracing.trace import trace
    from tests.deploy.test_wasm import node

    program = trace(lambda x: op(x, gain=GAIN) + 1, {"x": "float32[n]"})
    build("wasm", program, folder / "page", Options(platforms.find("wasm32")))
    script = f"const model = await load(); tell([...model.run({{ x: new Float32Array({X.tolist()}) }}).output.data]);"
    np.testing.assert_allclose(node(folder / "page", script), expected(X) + 1, rtol=1e-6)


def _cortex_m(op: CustomOp, folder: Path) -> None:
    from burn.deploy.build import build
    from burn.deploy.options import Options
    from burn.toolchain import platforms
    from burn.tracing.trace import trace
    from tests.deploy.test_bare import M4, on_the_board

    program = trace(lambda x: op(x, gain=GAIN) + 1, {"x": f"float32[{X.size}]"})
    build("static", program, folder / "board", Options(platforms.find(M4), name="model"))
    printed = on_the_board(
        folder / "board",
        f"""#include "model.h"
#include "semihosting.h"
static const float x[] = {{{", ".join(map(str, X))}}};
static unsigned char arena[MODEL_ARENA_BYTES] __attribute__((aligned(MODEL_ARENA_ALIGNMENT)));
static union {{ float y[MODEL_OUTPUT_COUNT]; int32_t bits[MODEL_OUTPUT_COUNT]; }} out;
int main(void) {{
    print_number(model_run(arena, sizeof arena, x, out.y));
    for (int i = 0; i < MODEL_OUTPUT_COUNT; i++) {{
        print("\\n");
        print_number(out.bits[i]);
    }}
    leave();
}}
""",
    )
    status, *bits = map(int, printed.split())
    assert status == 0
    np.testing.assert_allclose(np.array(bits, np.int32).view(np.float32), expected(X) + 1, rtol=1e-6)


def on_gpu(kind: str) -> Any:
    """The op in a program and in a training step on `cuda`. Kernels of the op run there if it has a body for GPUs; otherwise the
    host computes it, with copies that the list of kernels shows. Returns the executable of the step."""
    from burn import nn, optim

    op = made(kind)
    program = burn.compile(lambda x: op(x * 2, gain=GAIN) + 1, {"x": "float32[n]"}, device="cuda")
    for size in (7, 1, 0):
        np.testing.assert_allclose(program(X[:size]), expected(X[:size] * 2) + 1, rtol=1e-6)
    hosted = {kernel.name for kernel in program.artefact.kernels if kernel.kind == "host"}
    python = "python: " if kind == "Python callable" else ""
    assert hosted == (set() if kind in ON_GPU else {f"{python}tests.table::square"})

    burn.manual_seed(0)
    net = nn.Linear(3, 2)
    start = {name: p.numpy().astype(np.float64) for name, p in net.named_parameters()}

    def loss(net: Any, x: Any) -> Any:
        return op(net(x).reshape(-1), gain=GAIN).mean()

    step = burn.train.step(net, loss, optim.SGD(net, 0.01), device="cuda")
    x = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
    losses = [float(step(x)) for _ in range(6)]
    np.testing.assert_allclose(losses, trained(start, x, len(losses)), rtol=1e-4)
    return step.executable


ON_GPU = ("burn functions", "Triton kernel")
"""Kinds whose bodies run on a GPU."""


def trained(parameters: dict[str, np.ndarray], x: np.ndarray, steps: int) -> list[float]:
    """The losses of the training of `on_gpu` in float64."""
    weight, bias = parameters["weight"].copy(), parameters["bias"].copy()
    losses = []
    for _ in range(steps):
        y = x @ weight.T + bias if weight.shape == (2, 3) else x @ weight + bias
        losses.append(GAIN * (y**2).mean())
        g = 2 * GAIN * y / y.size
        move = g.T @ x if weight.shape == (2, 3) else x.T @ g
        weight, bias = weight - 0.01 * move, bias - 0.01 * g.sum(0)
    return losses


def recorded(executable: Any, rows: int = 4) -> bool:
    """True if calls with inputs on the GPU are one recording of launches and copies there, without work of the host."""
    shapes = [[rows if isinstance(dim, str) else dim for dim in spec.dims] for spec in executable.inputs]
    return executable.traced(shapes, [False] * len(shapes)) is not None


def step_on_gpu(width: int, steps: int) -> list[float]:
    """The losses of a training step on `cuda` with the user's kernel in the forward pass, and in the backward pass of a rule that
    calls the op. Checks that the step is one recording, that the host computes nothing and that nothing is copied to it, and the
    losses against the CPU's."""
    from burn import nn, optim
    from burn.runtime.device_array import DeviceArray, to_device

    x = np.random.default_rng(0).standard_normal((width // 2, width)).astype(np.float32)

    def step_of(op: CustomOp, device: str | None) -> Any:
        burn.manual_seed(0)
        net = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 8))
        return burn.train.step(
            net, lambda net, x: op(net(x).reshape(-1), gain=GAIN).mean(), optim.AdamW(net, 0.01), device=device
        )

    op = made("Triton kernel")
    op.vjp(lambda g, y, x, *, gain: g * (op(x + 1, gain=gain) - op(x, gain=gain) - gain))  # = g * 2 gain x
    step, given = step_of(op, "cuda"), to_device(x, "cuda")
    results = [step(given) for _ in range(steps)]  # nothing is read between the steps
    assert all(isinstance(p.elements, DeviceArray) for p in step.model.parameters())
    program = step.executable
    kinds = [kernel.kind for kernel in program.artefact.kernels]
    assert kinds.count("triton") == 2 and "host" not in kinds  # op(x) is computed once
    assert recorded(program, len(x))
    shapes = [[len(x) if isinstance(dim, str) else dim for dim in spec.dims] for spec in program.inputs]
    arrays = [np.zeros(shape, spec.dtype) for shape, spec in zip(shapes, program.inputs, strict=True)]
    events = program.profile(*(to_device(array, "cuda") for array in arrays)).events
    assert len(events) >= len(kinds) and all(event.on_gpu for event in events)
    losses = [float(result.numpy()) for result in results]
    reference = step_of(made("burn functions"), None)
    np.testing.assert_allclose(losses, [float(reference(x)) for _ in range(steps)], rtol=2e-3)
    return losses


COLUMNS: dict[str, Callable[[CustomOp, Path], None]] = {
    "lazy": _lazy,
    "`burn.jit`": _jit,
    "`burn.grad`": _grad,
    "`burn.vmap`": _vmap,
    "`torch.compile`": _torch,
    "JAX": _jax,
    "ONNX out": _onnx_out,
    "ONNX in": _onnx_in,
    "`burn-compile`": _exe,
    "WebAssembly": _wasm,
    "Cortex-M": _cortex_m,
}

_NO_BODY = (burn.CompileError, r"tests\.table::square.*it has no body for the target [\w-]+, only Triton kernels")
ERRORS: dict[tuple[str, str], tuple[type[Exception], str]] = {
    **{("Triton kernel", column): _NO_BODY for column in COLUMNS if column != "ONNX out"},
    **dict.fromkeys(
        [("Python callable", column) for column in ("`burn-compile`", "WebAssembly", "Cortex-M")],
        (burn.CompileError, r"tests\.table::square.*its body is a Python function"),
    ),
    ("object file", "WebAssembly"): (burn.CompileError, r"tests\.table::square.*square_body\.o is for"),
    ("object file", "Cortex-M"): (burn.CompileError, r"tests\.table::square.*its body is an object file"),
    ("C++ source", "Cortex-M"): (burn.CompileError, r"tests\.table::square.*its body needs the C\+\+ library"),
}
"""Cells that are an error: its type, and what it says."""


def check(kind: str, column: str, folder: Path) -> None:
    """Runs a cell. Raises the errors of `ERRORS`."""
    COLUMNS[column](made(kind), folder)


# ---- the guide's table -------------------------------------------------------------------------------------------------
GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "custom-ops.md"
BEGIN, END = "<!-- table: begin -->\n", "<!-- table: end -->\n"

REASONS = {
    _NO_BODY[1]: "no body for CPUs",
    r"tests\.table::square.*its body is a Python function": "needs Python",
    r"tests\.table::square.*square_body\.o is for": "of another machine",
    r"tests\.table::square.*its body is an object file": "not source",
    r"tests\.table::square.*its body needs the C\+\+ library": "needs the C++ library",
}
"""The texts of errors, shortened."""


def markdown() -> str:
    columns = [*COLUMNS, "GPU"]
    rows = [["use", *KINDS], ["---"] * (1 + len(KINDS))]
    for column in columns:
        cells = [f"error: {REASONS[ERRORS[kind, column][1]]}" if (kind, column) in ERRORS else "yes" for kind in KINDS]
        if column == "GPU":
            cells = ["yes" if kind in ON_GPU else "on the host" for kind in KINDS]
        rows.append([column, *cells])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def written(guide: str) -> str:
    """The guide with the table of today."""
    head, _, rest = guide.partition(BEGIN)
    return head + BEGIN + markdown() + END + rest.partition(END)[2]


if __name__ == "__main__":
    GUIDE.write_text(written(GUIDE.read_text()))
