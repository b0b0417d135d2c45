"""`torch.compile(backend="burn")` on CUDA tensors: numbers, layouts, aliases, streams, memory."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("triton")

from tests.codegen.gpu.test_torch_compile import CASES, Net, compiled, same

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh(torch: Any) -> Iterator[None]:
    import burn.adapters.torch  # noqa: F401  # registers the backend

    torch._dynamo.reset()
    torch.set_default_device("cuda")
    yield
    torch.set_default_device(None)
    torch._dynamo.reset()


@pytest.mark.parametrize("name", CASES)
def test_it_does_what_eager_does(torch: Any, name: str) -> None:
    function, inputs = CASES[name]
    run = compiled(function)
    for seed in range(3):
        torch.manual_seed(seed)
        given = [t.cpu() if t.dtype is torch.float64 and t.dim() == 0 else t for t in inputs()]
        theirs = copy.deepcopy(given)
        same(run(*given), function(*theirs))
        torch.testing.assert_close(given, theirs)


def test_training(torch: Any) -> None:
    model = Net()
    twin = copy.deepcopy(model)
    run = compiled(model)
    for _ in range(4):
        x = torch.randn(3, 2, 4, 5)
        for module, call in ((model, run), (twin, twin)):
            module.zero_grad()
            call(x).square().sum().backward()
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=2e-3, atol=2e-3)
    for a, b in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)


def test_channels_last_model(torch: Any) -> None:
    model = Net().to(memory_format=torch.channels_last)
    run = compiled(model)
    for grad in (False, True):
        with torch.set_grad_enabled(grad):
            x = torch.randn(4, 2, 6, 6).contiguous(memory_format=torch.channels_last)
            torch.testing.assert_close(run(x), model(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_attention_in_training(torch: Any, dtype: str, masked: bool) -> None:
    """Through each of torch's kernels that AOTAutograd may have traced."""
    made = getattr(torch, dtype)

    def attention(q: Any, k: Any, v: Any) -> Any:
        mask = torch.ones(64, 64, device=q.device, dtype=torch.bool).tril() if masked else None
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, mask)

    run = compiled(attention)
    q, k, v = (torch.randn(2, 4, 64, 32, dtype=made, requires_grad=True) for _ in range(3))
    weights = torch.randn(2, 4, 64, 32, dtype=made)
    wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    want = attention(*wide)
    got = run(q, k, v)
    tolerance = {"rtol": 1e-4, "atol": 1e-4} if dtype == "float32" else {"rtol": 3e-2, "atol": 3e-2}
    torch.testing.assert_close(got.double(), want, **tolerance)
    grads = torch.autograd.grad(got, (q, k, v), weights)
    for a, b in zip(grads, torch.autograd.grad(want, wide, weights.double()), strict=True):
        torch.testing.assert_close(a.double(), b, **tolerance)


def test_attention_with_dropout(torch: Any) -> None:
    run = compiled(lambda q, v: torch.nn.functional.scaled_dot_product_attention(q, q, v, dropout_p=0.5))
    q = torch.zeros(1, 1, 64, 8, requires_grad=True)
    v = torch.eye(64)[None, None].requires_grad_()
    out = run(q, v)
    out.backward(torch.ones_like(out))
    torch.testing.assert_close(v.grad.sum((0, 1, 3)), out.sum((0, 1, 2)) * 64)
    assert 0.3 < float((out == 0).float().mean()) < 0.7


def test_autocast(torch: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))
    run = compiled(model)
    x = torch.randn(8, 16)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cuda", dtype=dtype):
            got, want = run(x), model(x)
        assert got.dtype == dtype
        torch.testing.assert_close(got, want, rtol=3e-2, atol=3e-2)
        got.float().sum().backward()


def test_inference_mode_and_freeze(torch: Any) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
    run = compiled(model, options={"freeze": True})
    x = torch.randn(4, 6)
    with torch.inference_mode():
        same(run(x), model(x))
    with torch.no_grad():
        for _ in range(3):
            model[0].weight.mul_(1.5)
            same(run(x), model(x))


def test_sizes_that_vary(torch: Any) -> None:
    model = torch.nn.Linear(3, 2)
    run = compiled(lambda x: model(x).relu().t(), dynamic=True)
    for n in (2, 5, 2, 7, 5):
        x = torch.randn(n, 3)
        same(run(x), model(x).relu().t())


def test_streams(torch: Any) -> None:
    """Work is enqueued on the current stream: the side stream's is behind its own, and events order it."""
    run = compiled(lambda x: (x @ x).cumsum(0))
    x = torch.eye(256)
    want = run(x)
    side = torch.cuda.Stream()
    for _ in range(5):
        busy = torch.randn(4096, 4096)
        source = torch.zeros(256, 256)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(10):
                busy = busy @ busy / 64
            source.copy_(x)
            y = run(source)
            done = torch.cuda.Event()
            done.record()
        torch.cuda.current_stream().wait_event(done)
        same(y, want)
        y.record_stream(torch.cuda.current_stream())


def test_threads(torch: Any) -> None:
    from concurrent.futures import ThreadPoolExecutor

    run = compiled(lambda x: (x @ x).relu().sum(0))
    torch.set_default_device(
        None
    )  # it is one thread's: others would compile anew, and Dynamo fails in several at a time
    inputs = [torch.randn(64, 64, device="cuda") for _ in range(8)]
    with torch.no_grad():  # as in the threads, for the same reason
        wanted = [run(x) for x in inputs]

    def work(n: int) -> Any:
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            found = [run(inputs[(n + i) % 8]) for i in range(40)]
            torch.cuda.current_stream().synchronize()
            return found

    with ThreadPoolExecutor(4) as pool:
        for n, found in enumerate(pool.map(work, range(4))):
            for i, y in enumerate(found):
                torch.testing.assert_close(y, wanted[(n + i) % 8])


def test_memory_is_given_back(torch: Any) -> None:
    """Between calls burn holds nothing of torch's, and its own pool does not grow."""
    from burn.runtime.device import device

    model = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4)))
    run = compiled(model)
    x = torch.randn(4096, 512)
    with torch.no_grad():
        run(x)
        before, facts = torch.cuda.memory_allocated(), device("cuda").facts()
        for _ in range(5):
            run(x)
        assert torch.cuda.memory_allocated() == before
        after = device("cuda").facts()
        assert after["used"] + after["kept"] == facts["used"] + facts["kept"]


def test_out_of_memory(torch: Any) -> None:
    run = compiled(lambda x: (x[:, None] * x).cumsum(0))
    x = torch.randn(64)
    want = run(x)
    with pytest.raises(torch.OutOfMemoryError):
        torch.cuda.set_per_process_memory_fraction(0.02)
        try:
            compiled(lambda x: (x[:, None] * x).sin())(torch.randn(1 << 16))
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
    same(run(x), want)


def test_a_graph_of_the_callers(torch: Any) -> None:
    """The calls can be captured."""
    model = torch.nn.Linear(8, 8)
    run = compiled(lambda x: model(x).relu())
    x = torch.randn(4, 8)
    with torch.no_grad():
        for _ in range(3):
            run(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = run(x)
        x.copy_(torch.randn(4, 8))
        graph.replay()
        torch.testing.assert_close(y, model(x).relu())


def test_different_devices(torch: Any) -> None:
    run = compiled(lambda x, y: (x.to("cpu") + y) * 2)
    torch.testing.assert_close(run(torch.ones(3), torch.ones(3, device="cpu")), torch.full((3,), 4.0, device="cpu"))
    with pytest.raises(Exception, match="device"):
        compiled(lambda x, y: x + y)(torch.ones(3), torch.ones(3, device="cpu"))


@pytest.mark.parametrize("name", ["AdamW", "SGD", "RMSprop"])
def test_optimizers(torch: Any, name: str) -> None:
    models = [torch.nn.Linear(5, 7)]
    models.append(copy.deepcopy(models[0]))
    optimizers = [getattr(torch.optim, name)(m.parameters(), lr=0.1) for m in models]
    steps = [compiled(optimizers[0].step), optimizers[1].step]
    addresses = [p.data_ptr() for p in models[0].parameters()]
    for _ in range(4):
        x = torch.randn(3, 5)
        for model, optimizer, step in zip(models, optimizers, steps, strict=True):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            step()
    assert addresses == [p.data_ptr() for p in models[0].parameters()]
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
