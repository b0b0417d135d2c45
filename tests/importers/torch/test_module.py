"""Calling a compiled module: containers, numbers, names, buffers that change, weights that are shared, and what goes wrong."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
from burn.adapters.torch import CompiledModule, compile_module  # noqa: E402
from burn.errors import InputError, TypeMismatch  # noqa: E402
from burn.importers.torch.exported import import_program  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")


class Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Any, y: Any = None, scale: float = 2.0) -> Any:
        return self.function(x, y, scale)


def test_containers_and_numbers() -> None:
    module = Function(lambda x, y, scale: {"sum": x["a"] + y[0] * scale, "rest": (y[1], 3, None, [x["a"].shape[0]])})
    x, y = {"a": torch.randn(3, 2)}, [torch.randn(2), torch.randn(1)]
    compiled = burn.compile(module, (x, y), kwargs={"scale": 0.5})
    assert isinstance(compiled, CompiledModule)
    got = compiled(x, y, scale=0.5)
    torch.testing.assert_close(got, module(x, y, 0.5))
    assert [spec.name for spec in compiled.executable.outputs] == ["sum", "rest_0"]
    with pytest.raises(burn.InputError, match=r"0\.75, was exported as 0\.5"):
        compiled(x, y, scale=0.75)


def test_positions_names_and_wrong_calls() -> None:
    module = Function(lambda x, y, scale: x - y)
    x, y = torch.randn(3, 2), torch.randn(3, 2)
    compiled = compile_module(module, {"x": x, "y": y}, dynamic={"x": {0: "rows"}, "y": {0: "rows"}})
    torch.testing.assert_close(compiled(y=y, x=x), x - y)
    torch.testing.assert_close(compiled(x, y), x - y)
    torch.testing.assert_close(compiled(x.T.contiguous().T, y), x - y)  # any strides
    one = torch.randn(1, 2)
    torch.testing.assert_close(compiled(one, one * 2), -one)
    np.testing.assert_allclose(compiled.executable(x.numpy(), y.numpy()), (x - y).numpy())
    with pytest.raises(burn.InputError) as error:
        compiled(x, z=y)
    assert "no input 'z'" in str(error.value) and "input 'y' is missing" in str(error.value)
    with pytest.raises(burn.InputError, match="rows"):
        compiled(x, one)
    with pytest.raises(burn.InputError, match="element type float64"):
        compiled(x.double(), y)


def test_one_tensor_needs_no_tuple() -> None:
    x = torch.randn(3, 2)
    torch.testing.assert_close(burn.compile(torch.nn.Tanh(), x)(x), x.tanh())


def test_results_are_memory_of_their_own() -> None:
    weight = torch.nn.Parameter(torch.randn(40))
    module = Function(lambda x, y, scale: (x, weight, x.view(-1), x + 1))
    module.weight = weight
    x = torch.randn(5, 8)
    kept, before = x.clone(), weight.detach().clone()
    compiled = compile_module(module, (x,))
    for result in compiled(x):
        result.fill_(7)
    torch.testing.assert_close(x, kept)
    torch.testing.assert_close(weight.detach(), before)
    torch.testing.assert_close(compiled(x)[1], before)


def test_dynamic_that_does_not_fit() -> None:
    module = Function(lambda x, y, scale: x + 1)
    with pytest.raises(burn.ModelError) as error:
        compile_module(module, (torch.randn(2, 3),), dynamic={"q": {0: "a"}, "x": {5: "b"}})
    assert "'q'" in str(error.value) and "no axis 5" in str(error.value)
    fixed = Function(lambda x, y, scale: x @ torch.ones(3, 3))
    with pytest.raises(burn.ModelError, match=r"axis 1 \('width'\) can only be 3"):
        compile_module(fixed, (torch.randn(2, 3),), dynamic={"x": {1: "width"}})


class Counting(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.norm = torch.nn.BatchNorm1d(3)

    def forward(self, x: Any) -> Any:
        self.total += x.sum(0)
        return self.norm(x) + self.total


def test_buffers_change_as_they_do_in_torch() -> None:
    module = Counting()
    other = copy.deepcopy(module)
    compiled = compile_module(module, (torch.randn(5, 3),))
    for _ in range(3):
        x = torch.randn(5, 3)
        torch.testing.assert_close(compiled(x), other(x), rtol=1e-4, atol=1e-4)
    for (name, buffer), wanted in zip(module.named_buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(buffer, wanted, msg=lambda m, n=name: f"{n}: {m}")


def test_inputs_change_as_they_do_in_torch() -> None:
    def change(x: Any, y: Any, scale: float) -> Any:
        x.mul_(2)
        return x + y

    x, y = torch.randn(2, 3), torch.randn(3)
    compiled = compile_module(Function(change), (x.clone(), y))
    mine, eager = x.clone(), x.clone()
    torch.testing.assert_close(compiled(mine, y), change(eager, y, 2.0))
    torch.testing.assert_close(mine, eager)


def test_parameters_are_shared() -> None:
    """The store holds torch's own memory; a parameter that is not contiguous is copied in row-major order."""
    module = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Linear(16, 4, bias=False, dtype=torch.float32))
    module[1].weight = torch.nn.Parameter(torch.randn(16, 4).T)
    program = import_program(torch.export.export(module.eval(), (torch.randn(2, 8),))).program
    addresses = {key: weight.array().__array_interface__["data"][0] for key, weight in program.weights.items()}
    assert addresses["0.weight"] == module[0].weight.data_ptr()
    assert addresses["1.weight"] != module[1].weight.data_ptr()
    np.testing.assert_array_equal(program.weights.get("1.weight"), module[1].weight.detach().numpy())


def test_bfloat16_parameters() -> None:
    module = torch.nn.Linear(8, 5).bfloat16()
    x = torch.randn(3, 8).bfloat16()
    got = compile_module(module, (x,))(x)
    assert got.dtype is torch.bfloat16
    torch.testing.assert_close(got, module(x), rtol=2e-2, atol=2e-2)


def test_missing_operators_are_listed_at_once() -> None:
    def unsupported(x: Any, y: Any, scale: float) -> Any:
        a, _ = torch.linalg.ldl_factor(x)
        b, _ = torch.linalg.ldl_factor(x + 1)
        return a + b, torch.special.airy_ai(x)

    with pytest.raises(burn.ModelError) as error:
        compile_module(Function(unsupported), (torch.randn(3, 3),))
    text = str(error.value)
    assert "aten.linalg_ldl_factor_ex.default: is not supported; used 2 times in" in text
    assert "aten.special_airy_ai.default: is not supported; used 1 time in" in text
    assert "test_module.py:" in text and len(error.value.problems) == 2


def test_where_ops_came_from() -> None:
    class Outer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.ModuleList([torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.GELU())])

        def forward(self, x: Any) -> Any:
            return self.layer[0](x)

    program = import_program(torch.export.export(Outer().eval(), (torch.randn(2, 3),))).program
    locations = [str(op.location) for op in program.block.operations]
    assert any('"layer.0.1.gelu"("activation.py":' in location for location in locations), locations


def test_dropout_draws_anew_and_repeats_with_the_seed() -> None:
    module = torch.nn.Dropout(0.25)
    compiled = compile_module(module, (torch.ones(4000),))
    torch.manual_seed(3)
    first, second = compiled(torch.ones(4000)), compiled(torch.ones(4000))
    torch.manual_seed(3)
    assert torch.equal(compiled(torch.ones(4000)), first) and not torch.equal(first, second)
    assert abs((first > 0).float().mean() - 0.75) < 0.05
    torch.testing.assert_close(first.unique(), torch.tensor([0.0, 4 / 3]))


# ---- data-dependent sizes, branches and loops --------------------------------------------------------------------------
def test_sizes_from_data() -> None:
    def locations(x: Any, y: Any, scale: float) -> Any:
        values, inverse = torch.unique((x * 2).long(), return_inverse=True)
        return x.nonzero(), x[x > 0] * 2, x.masked_select(x < 0), values, inverse

    compiled = compile_module(Function(locations), (torch.randn(4, 5),), dynamic={"x": {0: "rows"}})
    for rows in (4, 1, 7):
        x = torch.randn(rows, 5).round()
        torch.testing.assert_close(compiled(x), locations(x, None, 1.0))


def test_sizes_from_numbers() -> None:
    def head(x: Any, y: Any, scale: float) -> Any:
        count = y.item()
        torch._check(count >= 0)
        torch._check(count <= x.shape[0])
        return x[:count] * 2, torch.arange(count)

    compiled = compile_module(Function(head), (torch.randn(7), torch.tensor(3)))
    for count in (0, 3, 7):
        x = torch.randn(7)
        torch.testing.assert_close(compiled(x, torch.tensor(count)), head(x, torch.tensor(count), 1.0))


def test_branches() -> None:
    def choose(x: Any, y: Any, scale: float) -> Any:
        return torch.cond(x.sum() > 0, lambda x: (x * 2, x.sum(0)), lambda x: (x - 1, x.mean(0)), (x,))

    compiled = compile_module(Function(choose), (torch.ones(3, 4),), dynamic={"x": {0: "rows"}})
    for x in (torch.ones(3, 4), -torch.ones(1, 4)):
        want = (x * 2, x.sum(0)) if x.sum() > 0 else (x - 1, x.mean(0))
        torch.testing.assert_close(compiled(x), want)


def test_loops() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def grow(x: Any, y: Any, scale: float) -> Any:
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, v: i < y.sum(), lambda i, v: (i + 1, v * 1.5 + 1), (start, x + 0))

    compiled = compile_module(Function(grow), (torch.ones(3), torch.tensor([2, 1])))
    for trips in (0, 1, 5):
        i, v = compiled(torch.ones(3), torch.tensor([trips, 0]))
        want = torch.ones(3)
        for _ in range(trips):
            want = want * 1.5 + 1
        assert i.item() == trips
        torch.testing.assert_close(v, want)


def test_tensors_of_burn_are_taken_and_types_are_no_examples() -> None:
    linear = torch.nn.Linear(3, 2)
    run = burn.compile(linear, (torch.ones(1, 3),))
    x = torch.ones(1, 3)
    for given in (burn.ones(1, 3), x.numpy(), x):
        torch.testing.assert_close(run(given), linear(x))
    with pytest.raises(burn.ModelError, match="tensors as examples"):
        burn.compile(linear, ("float32[batch, 3]",))


def test_inputs_that_require_gradients_are_refused() -> None:
    compiled = burn.compile(torch.nn.ReLU(), (torch.randn(3),))
    x = torch.randn(3, requires_grad=True)
    with pytest.raises(InputError, match=r"gradients.*torch\.compile"):
        compiled(x)
    with torch.no_grad():
        assert torch.equal(compiled(x), x.relu())


def test_functions_of_torch_say_how_they_are_compiled() -> None:
    for run in (burn.jit, lambda f: lambda x: burn.compile(f, (x,))):
        with pytest.raises(TypeError, match=r"torch\.sin .*burn\.sin does.*torch\.compile\(function"):
            run(lambda x: torch.sin(x))(torch.randn(3))
    one = burn.ones(2)
    assert (torch.ones(2) + one).tolist() == [2, 2] and (torch.ones(2) < 2 * one).tolist() == [True, True]


def test_donation() -> None:
    class Step(torch.nn.Module):
        def forward(self, x: Any, cache: Any, count: Any) -> Any:
            count += 1
            return x * 2, {name: t + x for name, t in cache.items()}

    def arguments() -> tuple[Any, ...]:
        return torch.ones(2, 3), {"k": torch.rand(2, 3), "v": torch.rand(2, 3)}, torch.zeros(2, 3)

    fast = burn.compile(Step(), arguments(), dynamic={"x": {0: "b"}, "cache": {0: "b"}}, donate=("cache", 2))
    x, cache, count = arguments()
    want = Step()(x, {k: t.clone() for k, t in cache.items()}, count.clone())
    result, new = fast(x, cache, count)
    torch.testing.assert_close((result, new), want)
    assert {t.data_ptr() for t in new.values()} == {t.data_ptr() for t in cache.values()}
    assert torch.equal(count, torch.ones(2, 3))  # what the module changes is kept
    assert torch.equal(x, torch.ones(2, 3))
    shared = torch.rand(2, 3)
    with pytest.raises(InputError, match="donated but shares memory"):
        fast(x, {"k": shared, "v": shared}, count)
    with pytest.raises(TypeMismatch, match="the arguments are x, cache, count"):
        burn.compile(Step(), arguments(), donate=("q",))


def test_caches_of_encoder_and_decoder() -> None:
    utils = pytest.importorskip("transformers.cache_utils")

    class Remembers(torch.nn.Module):
        def forward(self, x: Any, caches: Any) -> Any:
            own, other = caches.self_attention_cache.layers[0], caches.cross_attention_cache.layers[0]
            new = [utils.DynamicCache(), utils.DynamicCache()]
            new[0].update(torch.cat([own.keys, x], 2), torch.cat([own.values, -x], 2), 0)
            new[1].update(other.keys, 2 * other.values, 0)
            return utils.EncoderDecoderCache(*new)

    def arguments(past: int) -> tuple[Any, Any]:
        caches = [utils.DynamicCache(), utils.DynamicCache()]
        for cache in caches:
            cache.update(torch.randn(2, 3, past, 4), torch.randn(2, 3, past, 4), 0)
        return torch.randn(2, 3, 1, 4), utils.EncoderDecoderCache(*caches)

    sizes = {"caches": {2: "past"}}
    fast = burn.compile(Remembers(), arguments(4), dynamic=sizes)
    assert fast.outputs[0].name == "self_attention_cache_key_cache_0"
    for past in (4, 7):
        inputs = arguments(past)
        got, want = (torch.utils._pytree.tree_leaves(f(*inputs)) for f in (fast, Remembers()))
        torch.testing.assert_close(got, want)
        assert isinstance(fast(*inputs), utils.EncoderDecoderCache)
