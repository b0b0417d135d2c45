"""`torch.compile(backend="burn")`: inference, training, sizes that vary, parameters that change, and refusals."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional as F  # noqa: E402

import burn  # noqa: E402
import burn.adapters.torch  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Net(torch.nn.Module):
    """A convolution, batch norm, pooling, attention, layer norm."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        self.last = torch.nn.LayerNorm(8)
        self.head = torch.nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        x = F.interpolate(F.avg_pool2d(x, 2, 1), scale_factor=2, mode="bilinear")
        t = x.flatten(2).transpose(1, 2)
        t = t + self.attention(t, t, t, need_weights=False)[0]
        return self.head(self.last(F.gelu(t)).mean(1))


def test_it_is_registered() -> None:
    assert "burn" in torch._dynamo.list_backends()
    from importlib.metadata import entry_points

    (point,) = [p for p in entry_points(group="torch_dynamo_backends") if p.name == "burn"]
    assert point.load() is burn.adapters.torch.backend


def test_inference_with_every_batch() -> None:
    model = Net().eval()
    compiled = torch.compile(model, backend="burn", dynamic=True)
    before = burn.compile_count()
    with torch.no_grad():
        for batch in (2, 3, 7):
            x = torch.randn(batch, 3, 16, 20)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
        model.head.weight.data.mul_(2)  # parameters are read at every call
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-4)
    assert burn.compile_count() == before + 1


def test_frozen_parameters_are_constants_until_they_change() -> None:
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
    compiled = torch.compile(model, backend="burn", options={"freeze": True})
    x = torch.randn(4, 6)
    before = burn.compile_count()
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        assert burn.compile_count() == before + 1
        for _ in range(3):
            model[0].weight.mul_(1.5)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert burn.compile_count() == before + 2


def test_training() -> None:
    model = Net()
    other = copy.deepcopy(model)
    compiled = torch.compile(model, backend="burn")
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (model, other)]
    for _ in range(3):
        x = torch.randn(4, 3, 16, 20)
        for run, optimizer in zip((compiled, other), optimizers, strict=True):
            optimizer.zero_grad()
            run(x).square().sum().backward()
        for (name, p), q in zip(model.named_parameters(), other.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad, rtol=2e-3, atol=2e-3, msg=lambda m, n=name: f"{n}: {m}")
        for optimizer in optimizers:
            optimizer.step()
    for (name, a), b in zip(model.named_buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("name", ["AdamW", "RMSprop", "Adadelta"])
def test_steps_of_optimizers(name: str) -> None:
    models = [torch.nn.Linear(5, 7)]
    models.append(copy.deepcopy(models[0]))
    optimizers = [getattr(torch.optim, name)(m.parameters(), lr=0.1) for m in models]
    steps = [torch.compile(optimizers[0].step, backend="burn"), optimizers[1].step]
    for _ in range(3):
        x = torch.randn(3, 5)
        for model, optimizer, step in zip(models, optimizers, steps, strict=True):
            optimizer.zero_grad()
            model(x).square().sum().backward()
            step()
    for a, b in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


GRADIENTS = {
    "conv": lambda x, w: F.conv2d(x, w, stride=2, padding=1),
    "conv groups": lambda x, w: F.conv2d(x, w[:, :2], padding=1, dilation=2, groups=2),
    "conv transpose": lambda x, w: F.conv_transpose2d(x, w.transpose(0, 1), stride=2, padding=1, output_padding=1),
    "conv transpose, more output padding than strides": lambda x, w: F.conv_transpose2d(
        x, w.transpose(0, 1), stride=(1, 2), output_padding=(1, 2), dilation=(2, 3)
    ),
    "conv 1d": lambda x, w: F.conv1d(x[..., 0], w[..., 0], stride=3),
    "max pool": lambda x, w: F.max_pool2d(x, 3, 2, 1),
    "avg pool": lambda x, w: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "adaptive": lambda x, w: F.adaptive_avg_pool2d(x, (3, 4)),
    "nearest": lambda x, w: F.interpolate(x, scale_factor=2),
    "bilinear": lambda x, w: F.interpolate(x, (5, 13), mode="bilinear", align_corners=True),
    "norms": lambda x, w: F.layer_norm(x, x.shape[2:]) + F.group_norm(x, 2) + F.rms_norm(x, x.shape[3:]),
    "activations": lambda x, w: (
        F.gelu(x) + F.silu(x) + F.softplus(x) + F.elu(x) + x.tanh() + F.hardswish(x) + F.mish(x)
    ),
    "softmax": lambda x, w: x.softmax(1) + x.log_softmax(2),
    "embedding": lambda x, w: F.embedding(torch.tensor([[0, 2, 2], [1, 0, 5]]), w.flatten(1)),
    "attention": lambda x, w: F.scaled_dot_product_attention(x, x * 2, x.tanh()),
    "loss": lambda x, w: F.cross_entropy(x[:, :, 0, 0], torch.tensor([1, 3])),
    "indexing": lambda x, w: x[:, [0, 2, 2]] * w[0, 0, 0, 0] + x[:, 1:].cumsum(1),
    "extremes": lambda x, w: x.amax(1) + x.max(2)[0].sum() + x.std(),
}


def test_a_loss_of_second_derivatives() -> None:
    """Tangents of 0 in forward mode are torch's zero tensors without memory, which the backward graph contains."""
    model, x = torch.nn.Sequential(torch.nn.Linear(2, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)), torch.randn(3, 2)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.func.vmap(torch.func.hessian(lambda p: model(p)[0]))(x)[:, 0, 0].square().sum()

    compiled: Any = torch.compile(loss, backend="burn")
    weights = [model[0].weight, model[2].weight]
    for got, want in zip(*(torch.autograd.grad(f(x), weights) for f in (compiled, loss)), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_gradients() -> None:
    """All in one graph; each has inputs of its own, so that its gradients are its own."""
    x, w = torch.randn(2, 4, 11, 9), torch.randn(6, 4, 3, 3)

    def losses(*inputs: Any) -> Any:
        pairs = zip(inputs[::2], inputs[1::2], strict=True)
        return sum((f(a, b).sin()).sum() for f, (a, b) in zip(GRADIENTS.values(), pairs, strict=True))

    def gradients(function: Any) -> list[Any]:
        inputs = [t.clone().requires_grad_() for _ in GRADIENTS for t in (x, w)]
        function(*inputs).backward()
        return [t.grad for t in inputs]

    got, want = gradients(torch.compile(losses, backend="burn")), gradients(losses)
    for i, (a, b) in enumerate(zip(got, want, strict=True)):
        name = f"{list(GRADIENTS)[i // 2]}, input {i % 2}"
        if b is None:
            assert a is None, name
            continue
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("dynamic", [False, True])
def test_query_heads_that_share_keys(dynamic: bool) -> None:
    """Of known sizes: the gradients alone, as torch traces anew at every size."""

    def attend(q: Any, k: Any, v: Any, mask: Any) -> Any:
        causal = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return F.scaled_dot_product_attention(causal, k, v, mask, scale=0.3, enable_gqa=True)

    def run(function: Any, tensors: list[Any], mask: Any) -> list[Any]:
        leaves = [t.clone().requires_grad_() for t in tensors]
        out = function(*leaves, mask)
        out.sin().sum().backward()
        return [out.detach(), *(t.grad for t in leaves)]

    compiled = torch.compile(attend, backend="burn", dynamic=dynamic)
    for batch, queries, keys in ((2, 5, 3), (3, 4, 7))[: 1 + dynamic]:
        tensors = [torch.randn(batch, h, s, 8) for h, s in ((6, queries), (2, keys), (2, keys))]
        mask = torch.rand(batch, 1, queries, keys) < 0.8
        if dynamic:
            with torch.no_grad():
                q, k, v = tensors
                torch.testing.assert_close(compiled(q, k, v, mask), attend(q, k, v, mask), rtol=1e-4, atol=1e-5)
        for got, want in zip(run(compiled, tensors, mask), run(attend, tensors, mask), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


def test_complex_numbers_come_in_and_go_out() -> None:
    class Rotary(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("turns", torch.polar(torch.ones(5, 4), torch.randn(5, 4)))

        def forward(self, x: Any, z: Any) -> Any:
            turned = torch.view_as_complex(x.unflatten(-1, (4, 2))) * self.turns
            return torch.view_as_real(turned).flatten(-2), turned * z.conj()

    module = Rotary()
    compiled = torch.compile(module, backend="burn")
    for rows in (2, 3):
        x, z = torch.randn(rows, 5, 8), torch.randn(rows, 5, 4, dtype=torch.complex64)
        for got, want in zip(compiled(x, z.conj()), module(x, z.conj()), strict=True):
            torch.testing.assert_close(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune"])
def test_modes_of_torch_are_taken(mode: str) -> None:
    x = torch.randn(3)
    torch.testing.assert_close(torch.compile(torch.sin, backend="burn", mode=mode)(x), x.sin())


def test_dropout_is_the_same_forward_and_backward() -> None:
    compiled = torch.compile(lambda x: F.dropout(x, 0.3, True), backend="burn")
    x = torch.ones(1000, requires_grad=True)
    y = compiled(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach()) and 600 < (y > 0).sum() < 800


def test_graph_breaks_and_sizes_as_results() -> None:
    def broken(x: Any) -> Any:
        y = x * 2
        torch._dynamo.graph_break()
        return y + y.shape[0], x.shape[0] * 2

    compiled = torch.compile(broken, backend="burn", dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 2)
        torch.testing.assert_close(compiled(x), broken(x))


def test_the_way_back_takes_a_fraction_of_a_size() -> None:
    def scaled(x: Any) -> Any:
        return x * (x.shape[0] / 3)

    compiled = torch.compile(scaled, backend="burn", dynamic=True)
    for rows in (3, 5):
        x = torch.randn(rows, 2, requires_grad=True)
        torch.testing.assert_close(*(torch.autograd.grad(f(x).sin().sum(), x) for f in (compiled, scaled)))


def test_what_cannot_be_done_is_one_error() -> None:
    def unsupported(x: Any) -> Any:
        return torch.linalg.ldl_factor(x)[0] + torch.special.airy_ai(x)

    with pytest.raises(Exception, match="ldl_factor") as error:
        torch.compile(unsupported, backend="burn")(torch.randn(3, 3))
    assert "airy_ai" in str(error.value)
    with pytest.raises(Exception, match="nonsense"):
        torch.compile(lambda x: x + 1, backend="burn", options={"nonsense": 1})(torch.randn(3))


# ---- views --------------------------------------------------------------------------------------------------------------
def _turned(x: Any) -> Any:
    y = x.t() * 2  # lies in memory as x does, turned
    return y, y[1:, ::2]


VIEWS: dict[str, Callable[[Any], Any]] = {
    "expanded": lambda x: x.expand(4, *x.shape),
    "turned": lambda x: x.t(),
    "every other": lambda x: x[1:, ::2],
    "from the middle": lambda x: x[x.shape[0] // 2 :],
    "itself": lambda x: (x, x.view(-1)),
    "of a result": lambda x: (lambda y: (y[: x.shape[0] // 2], y.t()[1:]))(x * 2),
    "of a result alone": lambda x: (x * 2).t()[x.shape[0] // 2 :],
    "of a result, expanded": lambda x: (lambda y: (y, y.expand(x.shape[0], *y.shape)))(x * 2),
    "of a result that lies turned": _turned,
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("gradient", [False, True])
def test_outputs_that_are_views(view: str, gradient: bool) -> None:
    function = VIEWS[view]
    compiled = torch.compile(function, backend="burn", dynamic=True)
    for size in ((4, 6), (5, 7)):
        x = torch.randn(size, requires_grad=gradient)
        got, want = (r if isinstance(r, tuple) else (r,) for r in (compiled(x), function(x)))
        for g, w in zip(got, want, strict=True):
            assert torch.equal(g, w)
            assert (g.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == (
                w.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
            )
        if gradient:
            slopes = [torch.autograd.grad(sum(t.sin().sum() for t in r), x)[0] for r in (got, want)]
            torch.testing.assert_close(*slopes)


def test_inputs_that_are_turned_in_place() -> None:
    def turn(x: Any, y: Any) -> Any:
        x.transpose_(0, 1)
        y.mul_(2).transpose_(0, 1)
        return x + y

    ours = [torch.arange(24, dtype=torch.float32).reshape(4, 6) for _ in range(2)]
    theirs = [t.clone() for t in ours]
    assert torch.equal(torch.compile(turn, backend="burn")(*ours), turn(*theirs))
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a, b)
        assert a.stride() == b.stride()
