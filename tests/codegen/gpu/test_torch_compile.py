"""`torch.compile(backend="burn")` on a simulated GPU: CPU tensors play CUDA's, see `torch_on_gpu`."""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from types import FrameType
from typing import Any

import pytest

pytest.importorskip("triton")
torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

from burn.adapters.torch import gpu_memory  # noqa: E402
from burn.adapters.torch.compiled_graph import CompiledGraph  # noqa: E402
from burn.adapters.torch.gpu import GPUCalls  # noqa: E402
from burn.errors import IndexRunError, RunError  # noqa: E402
from tests.codegen.gpu.simulated_gpu import SimulatedGPU  # noqa: E402
from tests.codegen.gpu.torch_on_gpu import FakeCUDA  # noqa: E402
from tests.runtime.simulation import simulation  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def cuda(gpu: SimulatedGPU, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCUDA]:
    torch._dynamo.reset()
    yield FakeCUDA(simulation(), monkeypatch)
    torch._dynamo.reset()


def compiled(function: Callable[..., Any], **more: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="burn", **more)


def same(got: Any, wanted: Any) -> None:
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    pairs = zip(got, wanted, strict=True) if isinstance(got, (list, tuple)) else ((got, wanted),)
    for a, b in pairs:
        assert a.stride() == b.stride()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(2, 4, 3, padding=1), torch.nn.BatchNorm2d(4)
        self.head = torch.nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.head(F.relu(self.norm(self.conv(x))).mean((2, 3)))


def test_calls_repeat_as_one_graph(cuda: FakeCUDA, gpu: SimulatedGPU) -> None:
    """The second call makes a graph. Later ones change the nodes that use tensors at new addresses."""
    model = Net().eval()
    run = compiled(model)
    driver = simulation()
    gc.collect()  # the graphs of other tests
    graphs = driver.alive("graph")
    with torch.no_grad():
        for n in range(4):
            x = torch.randn(2, 2, 5, 5)
            same(run(x), model(x))
            assert (driver.alive("graph") > graphs) == (n > 0)
        assert gpu.launched
        changed = driver.changed_nodes()
        kept = [torch.randn(2, 2, 5, 5) for _ in range(3)]
        for x in kept:
            same(run(x), model(x))
        assert driver.changed_nodes() > changed
        model.conv.weight = torch.nn.Parameter(torch.randn(4, 2, 3, 3))
        same(run(x), model(x))


def test_a_call_does_no_work_for_each_parameter(cuda: FakeCUDA, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python calls as many functions with 12 parameters as with 2. torch compares the addresses of all in one call."""
    call, compare = CompiledGraph.__call__, gpu_memory.same
    calls: list[list[str]] = []

    def called(frame: FrameType, event: str, argument: Any) -> None:
        if event in ("call", "c_call"):
            calls[-1].append(frame.f_code.co_name)

    def counted(graph: CompiledGraph, arguments: list[Any]) -> list[Any]:
        calls.append([])
        sys.setprofile(called)
        try:
            return call(graph, arguments)
        finally:
            sys.setprofile(None)

    def compared(values: Any, addresses: list[int], indices: list[int]) -> bool:
        assert len(indices) == len(values)
        sys.setprofile(None)
        found = compare(values, addresses, indices)
        sys.setprofile(called)
        return found

    for count in (2, 12):
        torch._dynamo.reset()
        x, parameters = torch.randn(3), [torch.randn(3) for _ in range(count)]
        run = compiled(lambda x, *given: torch.tanh(sum(given, x)))
        with torch.no_grad(), monkeypatch.context() as patch:
            for _ in range(3):
                same(run(x, *parameters), torch.tanh(sum(parameters, x)))
            patch.setattr(gpu_memory, "same", compared)
            patch.setattr(CompiledGraph, "__call__", counted)
            with cuda.lazily():
                run(x, *parameters)
    assert calls[0] == calls[1] and len(calls) == 2


def test_training(cuda: FakeCUDA) -> None:
    model = Net()
    twin = copy.deepcopy(model)
    run = compiled(model)
    for _ in range(2):
        x = torch.randn(2, 2, 3, 4)
        for module, call in ((model, run), (twin, twin)):
            module.zero_grad()
            call(x).square().sum().backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=2e-3, atol=2e-4)
    for a, b in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


def test_dropout_and_an_embedding_of_two_rows(cuda: FakeCUDA) -> None:
    """One kernel draws the numbers; the sums for each row are split into parts."""
    table, linear = torch.nn.Embedding(2, 8), torch.nn.Linear(8, 8)
    tokens = torch.randint(0, 2, (6, 50))
    y = compiled(lambda i: F.dropout(linear(table(i)), 0.5))(tokens)
    y.sum().backward()
    kept = (y != 0).float()
    assert 0.4 < kept.mean() < 0.6
    gradients = (2 * kept).reshape(-1, 8) @ linear.weight.detach()
    wanted = torch.zeros(2, 8).index_add(0, tokens.reshape(-1), gradients)
    torch.testing.assert_close(table.weight.grad, wanted, rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(linear.bias.grad, 2 * kept.sum((0, 1)), rtol=1e-3, atol=1e-3)


CASES: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]]]] = {
    "views of an input": (lambda x: (x * 2, x[1:], x.t()), lambda: (torch.randn(3, 4),)),
    "an input that is written": (lambda x: (x.mul_(2).sum(), x), lambda: (torch.randn(3, 4),)),
    "a view of a written input": (lambda x: (x.add_(1).t(), x[0] * 2), lambda: (torch.randn(3, 4),)),
    "a part that is written": (lambda x, y: x[:, 1].copy_(y) + 1, lambda: (torch.randn(3, 4).t(), torch.randn(4))),
    "channels last": (
        lambda x: torch.relu(x) + 1,
        lambda: (torch.randn(2, 3, 4, 5).contiguous(memory_format=torch.channels_last),),
    ),
    "a transposed input": (lambda x, y: x @ y, lambda: (torch.randn(4, 3).t(), torch.randn(4, 2))),
    "an input with gaps": (lambda x: x + 1, lambda: (torch.randn(4, 6)[:, ::2],)),
    "an input that begins anywhere": (lambda x: x + 1, lambda: (torch.randn(4, 3)[1:],)),
    "a number on the host": (lambda x, s: x * s, lambda: (torch.randn(3), torch.tensor(2.0, dtype=torch.float64))),
    "nothing in it": (lambda x: torch.cat([x, x + 1]), lambda: (torch.randn(0, 3),)),
    "complex numbers": (lambda x: x * x.conj(), lambda: (torch.randn(3, dtype=torch.complex64),)),
    "sizes from the data": (lambda x: x[x > 0] * 2, lambda: (torch.randn(5),)),
    "half precision": (lambda x: F.softmax(x.half(), -1), lambda: (torch.randn(3, 4),)),
    "integers": (lambda x: (x // 3, x > 2, x.sum()), lambda: (torch.arange(7),)),
    "one tensor twice": (lambda x: (y := x + 1, y), lambda: (torch.randn(3),)),
}


USUAL = ("an input that is written", "channels last", "a number on the host", "sizes from the data")
"""The cases that every run of the tests has."""


@pytest.mark.parametrize("name", [n if n in USUAL else pytest.param(n, marks=pytest.mark.slow) for n in CASES])
def test_it_does_what_eager_does(cuda: FakeCUDA, name: str) -> None:
    function, inputs = CASES[name]
    run = compiled(function)
    for seed in range(3):
        torch.manual_seed(seed)
        given = inputs()
        theirs = copy.deepcopy(given)
        same(run(*given), function(*theirs))
        torch.testing.assert_close(given, theirs)


def test_sizes_that_vary(cuda: FakeCUDA) -> None:
    model = torch.nn.Linear(3, 2)
    run = compiled(lambda x: model(x).relu().t(), dynamic=True)
    for n in (2, 5, 2, 7, 5):
        x = torch.randn(n, 3)
        same(run(x), model(x).relu().t())


def test_work_is_of_the_current_stream(cuda: FakeCUDA) -> None:
    """It runs behind what the stream was given before."""
    run = compiled(lambda x: x.cumsum(0) * 2)
    x = torch.ones(4)
    same(run(x), x.cumsum(0) * 2)
    cuda.streams.append(simulation().stream())
    with cuda.lazily():
        y = run(x)
        assert not torch.equal(y, torch.tensor([2.0, 4.0, 6.0, 8.0]))
        cuda.finish()
        same(y, torch.tensor([2.0, 4.0, 6.0, 8.0]))


def test_memory_is_torchs(cuda: FakeCUDA) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(3, 64), torch.nn.ReLU(), torch.nn.Linear(64, 2))
    run = compiled(model)
    x = torch.randn(5, 3)
    with torch.no_grad():
        run(x)
        used, given = simulation().alive("memory"), cuda.given
        for _ in range(3):
            run(x)
    assert simulation().alive("memory") == used
    assert cuda.given == given + 6  # an output and an arena


def test_out_of_memory(cuda: FakeCUDA) -> None:
    run = compiled(lambda x: x.cumsum(0) * 2)
    x = torch.ones(64)
    run(x)
    cuda.room = 100
    with pytest.raises(torch.OutOfMemoryError):
        run(x)
    cuda.room = None
    same(run(x), x.cumsum(0) * 2)


@pytest.mark.parametrize(
    ("function", "reason"),
    [(lambda x: torch.unique(x) + 1, "unique runs on the host"), (lambda x: x[x > 0] * 2, "nonzero runs on the host")],
)
def test_a_program_that_needs_the_host_is_not_captured(
    cuda: FakeCUDA, function: Callable[..., Any], reason: str
) -> None:
    run = compiled(function)
    x = torch.randn(5)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        same(run(x), function(x))
        cuda.capturing = True
        with pytest.raises(RunError, match=reason):
            run(x)
        cuda.capturing = False
        same(run(x), function(x))


def test_a_cpu_as_the_target_is_refused(cuda: FakeCUDA) -> None:
    run = compiled(lambda x: x + 1, options={"target": "generic"})
    with pytest.raises(Exception, match='the option "target": the graph\'s tensors are on cuda:0'):
        run(torch.ones(3))


def test_an_index_out_of_range_is_raised_by_a_later_call(cuda: FakeCUDA) -> None:
    run = compiled(lambda x, i: x[i] + 1)
    x = torch.randn(4)
    same(run(x, torch.tensor([1, 3])), x[[1, 3]] + 1)
    with pytest.raises(IndexRunError, match="index 9 is out of range"):
        run(x, torch.tensor([9, 3]))
        run(x, torch.tensor([1, 3]))
    same(run(x, torch.tensor([1, 3])), x[[1, 3]] + 1)


def test_random_numbers_repeat_with_the_seed(cuda: FakeCUDA) -> None:
    run = compiled(lambda x: F.dropout(x, 0.5))
    x = torch.ones(48)
    seen = []
    for seed in (0, 0, 1, 1):
        torch.manual_seed(seed)
        seen.append(run(x))
    assert torch.equal(seen[0], seen[1]) and torch.equal(seen[2], seen[3]) and not torch.equal(seen[1], seen[2])
    assert 8 < int((seen[0] == 0).sum()) < 40 and set(seen[0].tolist()) == {0.0, 2.0}


@pytest.mark.parametrize("name", ["SGD", pytest.param("AdamW", marks=pytest.mark.slow)])
def test_optimizers_write_parameters_in_place(cuda: FakeCUDA, name: str) -> None:
    models = [torch.nn.Linear(3, 2)]
    models.append(copy.deepcopy(models[0]))
    optimizers = [getattr(torch.optim, name)(m.parameters(), lr=0.1, weight_decay=0.1) for m in models]
    steps = [compiled(optimizers[0].step), optimizers[1].step]
    for _ in range(4):
        x = torch.randn(3, 3)
        for model, optimizer, step in zip(models, optimizers, steps, strict=True):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            step()
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def _layers(x: Any, a: Any, b: Any) -> Any:
    y = torch.tanh(x @ a)
    z = torch.tanh(y @ b)
    return torch.tanh(z @ b) @ b, y


def _gradients(run: Callable[..., Any], values: list[Any], around: Any = nullcontext) -> list[Any]:
    inputs = [v.clone().requires_grad_() for v in values]
    with around():
        z, y = run(*inputs)
    return list(torch.autograd.grad(z.sum() + y.sum() / 3, inputs))


def test_saved_tensors_are_one_block(cuda: FakeCUDA) -> None:
    """A step allocates the outputs, the block, the gradients and two arenas. An output that is also saved stays a tensor."""
    run = compiled(_layers)
    values = [torch.randn(2, 3), torch.randn(3, 4), torch.randn(4, 4)]
    for _ in range(2):
        same(_gradients(run, values), _gradients(_layers, values))
    given = cuda.given
    inputs = [v.clone().requires_grad_() for v in values]
    z, _ = run(*inputs)
    of_forward = cuda.given - given
    saved = [t for t in z.grad_fn.saved_tensors if all(t is not i for i in inputs)]
    assert sum(t.dtype is torch.uint8 for t in saved) == 1 and len(saved) <= 2
    assert of_forward <= 4  # two outputs, the block, an arena
    z.sum().backward()
    assert cuda.given - given <= of_forward + len(inputs) + 1


def test_saved_tensors_beside_sizes_that_vary(cuda: FakeCUDA) -> None:
    """The block holds tensors of fixed sizes. Results of other sizes are beside it."""

    def function(x: Any, a: Any, b: Any) -> Any:
        own = torch.tanh(a @ b).t().contiguous().t()
        return torch.tanh(torch.tanh(x @ own).transpose(0, 1) * 2)

    run = compiled(function)
    for rows in (2, 5, 3):
        values = [torch.randn(rows, 3, 4), torch.randn(4, 3), torch.randn(3, 6)]
        torch._dynamo.mark_dynamic(values[0], 0)
        inputs = [v.clone().requires_grad_() for v in values]
        torch._dynamo.mark_dynamic(inputs[0], 0)
        theirs = [v.clone().requires_grad_() for v in values]
        got, want = run(*inputs), function(*theirs)
        same(got, want)
        found, exact = (torch.autograd.grad(y.square().sum(), g) for y, g in ((got, inputs), (want, theirs)))
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=1e-5)


def test_hooks_on_saved_tensors(cuda: FakeCUDA) -> None:
    """Hooks of the compilation see each tensor. Those of a call see the block, and may give a copy of it at any address."""
    values = [torch.randn(2, 3), torch.randn(3, 4), torch.randn(4, 4)]
    want, seen = _gradients(_layers, values), []

    def moved(t: Any) -> Any:
        seen.append(t.dtype)
        other = torch.zeros(2 * t.numel() + 8, dtype=t.dtype)
        other[1::2][: t.numel()] = t.reshape(-1)
        return other[1::2][: t.numel()].view(t.shape)

    def around() -> Any:
        return torch.autograd.graph.saved_tensors_hooks(lambda t: t, moved)

    run = compiled(_layers)
    same(_gradients(run, values), want)
    same(_gradients(run, values, around), want)
    assert torch.uint8 in seen
    torch._dynamo.reset()
    seen.clear()
    run = compiled(_layers)
    same(_gradients(run, values, around), want)
    assert seen and torch.uint8 not in seen


def test_a_block_of_programs_that_need_the_host(cuda: FakeCUDA, monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: Any, a: Any, b: Any) -> Any:
        y = torch.tanh(x @ a)
        return torch.exp(y @ b), y

    monkeypatch.setattr(GPUCalls, "_call", lambda *_: None)
    values = [torch.randn(2, 3), torch.randn(3, 4), torch.randn(4, 4)]
    same(_gradients(compiled(function), values), _gradients(function, values))
