"""Memory of outputs of torch.compile(backend="burn"): aliasing, layouts, and writes after a graph break."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from burn.adapters.torch.compiled_graph import CompiledGraph  # noqa: E402
from burn.adapters.torch.layouts import ELEMENTS  # noqa: E402
from tests.fuzz.torch_aliases.case import differs, seen  # noqa: E402
from tests.fuzz.torch_aliases.program import Program  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
BREAK = "torch._dynamo.graph_break()"

PROGRAMS: dict[str, Program] = {
    "parts of one product, one of them written": Program(
        [(1, 4)],
        ["t"],
        ["v1 = v0 * 2", "v2, v3 = v1.chunk(2, -1)", BREAK, "v2.mul_(10)", "v4 = v1.sum()"],
        ["v4", "v2", "v3"],
        False,
        False,
        1,
    ),
    "a place of a cache": Program(
        [(2,)],
        ["t"],
        ["v1 = torch.zeros(2, 3)", "v2 = v1[:, 1]", BREAK, "v2.copy_(v0)"],
        ["v1"],
        False,
        False,
        2,
    ),
    "a tensor without gradients beside one that has some": Program(
        [(2,)],
        ["t"],
        ["v1 = v0 * 2", "v2 = torch.zeros(2, 3) + v1.detach().sum()", "v3 = v2[:, 1]", BREAK, "v3.add_(1)"],
        ["v1", "v2"],
        True,
        False,
        3,
    ),
    "a tensor that is returned twice": Program(
        [(2, 3)],
        ["t"],
        ["v1 = v0 * 2", "v2 = v1.contiguous()", BREAK, "v3 = v1.sum()", "v2.mul_(10)"],
        ["v1", "v2", "v3"],
        True,
        False,
        5,
    ),
    "a tensor and its row": Program([(2, 2)], ["t"], ["v1 = v0 * 2"], ["v1", "v1[0]"], False, False, 4),
    "channels last": Program(
        [(2, 3, 4, 5)],
        ["t.contiguous(memory_format=torch.channels_last)"],
        ["v1 = torch.relu(v0)", BREAK, "v2 = v1.permute(0, 2, 3, 1).view(2, -1)"],
        ["v1", "v2"],
        False,
        False,
        5,
    ),
    "a transpose": Program(
        [(2, 3)], ["t"], ["v1 = (v0 * 2).t()", BREAK, "v2 = v1.t().view(-1)"], ["v1", "v2"], False, False, 6
    ),
    "every other column": Program([(3, 5)], ["t"], ["v1 = (v0 + 1)[:, ::2]"], ["v1"], False, False, 7),
    "sizes that vary": Program(
        [(3, 4)],
        ["t.transpose(0, 1)"],
        ["v1 = v0 * 2", "v2 = v1[1:]", BREAK, "v2.add_(1)"],
        ["v1", "v2"],
        False,
        True,
        8,
    ),
    "a size that the graph finds": Program(
        [(3, 4)],
        ["t"],
        ["v1 = v0[v0[:, 0] > -9] * 2", "v2 = v1.t()"],
        ["v1", "v2"],
        False,
        False,
        9,
    ),
    "bits": Program(
        [(2, 4)],
        ["t"],
        ["v1 = v0 * 2", "v2 = v1.view(torch.int32)", BREAK, "v2.zero_()"],
        ["v1", "v2"],
        False,
        False,
        10,
    ),
    "complex numbers": Program(
        [(3, 2)],
        ["t"],
        ["v1 = torch.view_as_complex(v0 * 2)", "v2 = torch.view_as_real(v1)", "v3 = v2[:, 1]", BREAK, "v3.zero_()"],
        ["v2", "v3"],
        False,
        False,
        11,
    ),
    "gradients of parts": Program(
        [(2, 6)],
        ["t"],
        ["v1 = v0 * 3", "v2 = v1[:, :3]", BREAK, "v2.mul_(2)", "v3 = v1[:, 3:]", "v4 = v1 * v1"],
        ["v4", "v3"],
        True,
        False,
        12,
    ),
    "a part of an input that has gradients": Program(
        [(2, 1)], ["t"], ["v1 = v0.movedim(0, -1)", BREAK, "v2 = v1.unbind(0)[-1]"], ["v0", "v2"], True, False, 10
    ),
    "a part of an input that begins later in its storage": Program(
        [(3, 2)], ["t"], ["v1 = v0[1:]", BREAK, "v2 = v1.chunk(2)[-1]"], ["v0", "v2"], True, False, 11
    ),
    "channels last, rolled": Program(
        [(2, 2, 5, 3)],
        ["t.contiguous(memory_format=torch.channels_last)"],
        ["v1 = v0.roll(1, 0)", "v2 = v0.roll(-7, -1)", "v3 = v0.roll((1, 2), (1, 3))"],
        ["v1", "v2", "v3"],
        False,
        False,
        12,
    ),
    "an input that is a view of a product, written where sizes vary": Program(
        [(3, 2)],
        ["t"],
        ["v1 = v0 * v0", "v2 = v1.movedim(0, -1)", BREAK, "v3 = v2.t() + 1", "v4 = v1.reshape(-1)", "v4.relu_()"],
        ["v1", "v2", "v3", "v4"],
        False,
        True,
        13,
    ),
    "two inputs over a part of one storage, one of them written": Program(
        [(1, 3, 4), (2, 1)],
        ["torch.cat([t, t])[::2][: t.shape[0]]", "made[0]"],
        ["v0 = v0 * 1", "v2 = v1.view(v1.shape[0], -1)", "v2.masked_fill_(v2 > 1, -1)"],
        ["v1", "v2"],
        False,
        False,
        14,
    ),
    "a view of a view of an input that is written": Program(
        [(3, 1, 4, 5)],
        ["t"],
        ["v1 = v0.diagonal()", BREAK, "v0.masked_fill_(v0 > 1, -1)", "v2 = v1.unbind(0)[-1]", "v3 = v2.roll(1, 0)"],
        ["v0", "v2", "v3"],
        False,
        False,
        15,
    ),
    "channels last, rolled, with sizes that vary": Program(
        [(2, 3, 5, 4)],
        ["t.contiguous(memory_format=torch.channels_last)"],
        ["v1 = v0.roll(1, 0)", "v2 = v0.roll(-7, -1)", "v3 = v0.roll((1, 2), (1, 3))", "v4 = v0.roll(3)"],
        ["v1", "v2", "v3", "v4"],
        False,
        True,
        16,
    ),
    "a view of a written input that begins later, beside two inputs that alias": Program(
        [(1,), (3, 2), (4,)],
        ["t", "torch.stack([t, t], -1)[..., 1]", "made[0][1:]"],
        [
            "v3 = v0.view(-1)",
            "v2.add_(1)",
            "v1.transpose(0, -1)[0].mul_(2)",
            "v4 = v1.transpose(-1, -2)",
            "v2.fill_(3)",
        ],
        ["v4", "v1", "v3"],
        False,
        False,
        17,
    ),
    "a view of a written input that begins later, whose sizes vary": Program(
        [(5, 4, 3)],
        ["torch.cat([t, t])[2:-1]"],
        ["v0.mul_(2)", "v1 = v0.transpose(0, 1)", "v2 = v0.view(v0.shape[0] * v0.shape[1], -1)", "v3 = v0.split(3)[1]"],
        ["v1", "v2", "v3"],
        False,
        True,
        18,
    ),
    "a view of a written input with other strides, whose sizes vary": Program(
        [(5, 4, 3)],
        ["torch.stack([t, t], -1)[..., 1].transpose(0, 2)"],
        ["v0.fill_(2)", "v1 = v0.unsqueeze(0)", "v2 = v0.diagonal(1, 1, 2)", "v3 = v0.narrow(0, 1, v0.shape[0] - 1)"],
        ["v1", "v2", "v3"],
        False,
        True,
        19,
    ),
    "views of inputs that alias, whose elements and axes change": Program(
        [(5, 4), (2, 3)],
        ["torch.stack([t, t], -1)[..., 1]", "made[0][1:]"],
        ["v1.add_(1)", "v1.t_()", "v2 = v1[1:]", "v3 = v0.unbind(0)[1]", "v4 = v0.diagonal()"],
        ["v2", "v3", "v4", "v1", "v0"],
        False,
        False,
        20,
    ),
    "views of an input and of its part, with gradients": Program(
        [(5, 4), (2, 3)],
        ["t", "torch.stack([t, t], -1)[..., 1]"],
        ["v2 = v0 * 2", "v3 = v2[1:]", BREAK, "v3.add_(v1.sum())", "v4 = v2[1]", "v5 = v3.t()", "v1.mul_(2)"],
        ["v2", "v4", "v5", "v1"],
        True,
        False,
        21,
    ),
    "an input written through a view whose sizes are computed from those that vary": Program(
        [(1, 4, 4, 1)],
        ["torch.cat([t, t])[1:]"],
        ["v1 = v0.flatten()", "v1.masked_fill_(v1 > 1, -1)", "v0.neg_()", "v1[v1 > 1] = 0"],
        ["v1", "v0"],
        False,
        True,
        24,
    ),
    "one of the rows of a written input that has gradients": Program(
        [(5, 4)],
        ["t"],
        ["v1 = v0 * 2", "v2 = v1[1:]", BREAK, "v2.mul_(3)", "v3 = v1.unbind(0)[1]", "v4 = v2.sin()"],
        ["v1", "v3", "v4"],
        True,
        False,
        22,
    ),
    "one of the columns of a written input that begins later, with gradients": Program(
        [(5, 4)],
        ["t"],
        ["v1 = (v0 * 2)[2:]", BREAK, "v1.mul_(3)", "v2 = v1.split(3, -1)[1]", "v3 = v2.sin()"],
        ["v1", "v2", "v3"],
        True,
        True,
        23,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_is_as_in_torch(name: str) -> None:
    program = PROGRAMS[name]
    torch._dynamo.reset()
    compiled = torch.compile(program.function(), backend="burn", dynamic=program.dynamic or None)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert differs(seen(program, compiled), seen(program, program.function())) == ""


def test_gradients_lie_as_parameters_do() -> None:
    """The backward graph's results have the strides that torch states."""
    weight = torch.randn(4, 3, 3, 3).contiguous(memory_format=torch.channels_last).requires_grad_()
    image = torch.randn(2, 3, 5, 5).contiguous(memory_format=torch.channels_last)

    def run(function: Callable[..., Any]) -> Any:
        (gradient,) = torch.autograd.grad(function(image, weight).square().sum(), weight)
        return gradient

    got = run(torch.compile(torch.nn.functional.conv2d, backend="burn"))
    assert got.stride() == run(torch.nn.functional.conv2d).stride()


def test_one_copy_of_what_views_share() -> None:
    """Views of one tensor cost one array: the program computes the tensor, not its parts."""
    counts = []

    def watching(graph: Any, inputs: Any) -> Any:
        made = CompiledGraph(graph, (), {0: ELEMENTS, 1: ELEMENTS}, None)
        counts.append(len(made.general.executable.outputs))  # type: ignore[union-attr]
        return make_boxed_func(lambda *arguments: made(list(arguments)))

    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch._aot_autograd.utils import make_boxed_func

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(
            lambda x: (x * 2).chunk(2), backend=aot_autograd(fw_compiler=watching, inference_compiler=watching)
        )(torch.ones(4, 3))
    assert counts == [1]


def test_a_view_of_an_input_that_is_returned_and_kept() -> None:
    """torch recreates the returned view and needs no elements of it; the same view, kept for the backward pass, has them."""
    weight = torch.randn(3, 4, requires_grad=True)

    def function(x: Any) -> Any:
        rows = x.reshape(-1, 4)
        return rows, torch.nn.functional.linear(rows, weight).softmax(1)

    x = torch.randn(2, 5, 4, requires_grad=True)
    torch._dynamo.reset()
    given = torch.randn(10, 3)
    want = torch.autograd.grad(function(x)[1], (x, weight), given)
    junk = [torch.full((10, 4), float("nan")) for _ in range(50)]  # memory that is freed, and then taken again
    del junk
    rows, scores = torch.compile(function, backend="burn", fullgraph=True)(x)
    assert rows._base is x
    for ours, theirs in zip(torch.autograd.grad(scores, (x, weight), given), want, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_what_is_written_to_a_view_has_gradients_in_the_whole() -> None:
    """Outputs of an inference graph are also views of each other to autograd."""

    def parts(x: Any) -> tuple[Any, Any]:
        whole = x * 2
        return whole, whole[1:]

    def gradient(run: Callable[..., Any]) -> list[float]:
        w = torch.tensor([2.0, 3.0], requires_grad=True)
        whole, part = run(torch.tensor([1.0, 5.0, 7.0]))
        part.mul_(w)
        whole.sum().backward()
        assert w.grad is not None
        return w.grad.tolist()

    torch._dynamo.reset()
    assert gradient(torch.compile(parts, backend="burn")) == gradient(parts) == [10.0, 14.0]


def test_a_part_that_one_call_gave_with_others_is_not_written() -> None:
    """torch's own rule: autograd could not tell the others of it."""

    def f(x: Any) -> Any:
        return x.unbind(0)[0]

    torch._dynamo.reset()
    for run in (f, torch.compile(f, backend="burn")):
        part = run(torch.ones(2, 2, requires_grad=True) * 1)
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            part.mul_(2)


def test_a_view_as_another_type_of_an_input_that_aliases_a_written_one_is_refused() -> None:
    """torch would count the layout of the view in elements of the base."""

    def f(x: Any, y: Any) -> Any:
        x.add_(1)
        return y.view(torch.float16)

    torch._dynamo.reset()
    whole = torch.ones(4, 3)
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed, match=r"a view as torch\.float16 of an input of torch\.float32"
    ):
        torch.compile(f, backend="burn")(whole[1:], whole[:3])
