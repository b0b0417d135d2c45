"""Former refusals and silent errors of torch.compile and burn.compile: assertions, determinants in training, checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import burn  # noqa: E402
from tests.releases import release  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
linalg = torch.linalg


def compiled(function: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend="burn")


def test_examples_are_dense() -> None:
    double = torch.nn.Identity()
    rows = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    for example, text in (
        (rows, "a nested tensor.*to_padded_tensor"),
        (torch.eye(3).to_sparse_csr(), "sparse_csr.*to_dense"),
    ):
        with pytest.raises(burn.ModelError, match=rf"argument \[0\]\['x'\] is .*{text}"):
            burn.compile(double, ({"x": example},))


# ---- assertions ---------------------------------------------------------------------------------------------------------
class Checked(torch.nn.Module):
    def __init__(self, check: Callable[[Any], Any]) -> None:
        super().__init__()
        self.check = check

    def forward(self, x: Any) -> Any:
        self.check(x)
        return x * 2


CHECKS: dict[str, Callable[[Any], Any]] = {
    "of an element": lambda x: torch._check((x >= 0).all().item()),
    "with a message": lambda x: torch._check_with(RuntimeError, (x >= 0).all().item(), lambda: "negative"),
    "of all": lambda x: torch._check_tensor_all(x >= 0),
    "later": lambda x: torch._assert_async((x >= 0).all()),
    "later, with a message": lambda x: torch._assert_async((x >= 0).all(), "negative"),
}


OLD = pytest.mark.skipif(release("torch") < (2, 13), reason="torch 2.11 cannot decompose it, or drops it")


@pytest.mark.parametrize("name", [n if "later" in n else pytest.param(n, marks=OLD) for n in CHECKS])
def test_assertions_are_kept(name: str) -> None:
    """A false one ends the run, in burn.compile and torch.compile."""
    good, bad = torch.rand(3), torch.rand(3) - 2
    with torch._dynamo.config.patch(capture_scalar_outputs=True), torch.no_grad():
        for run in (burn.compile(Checked(CHECKS[name]), (good,)), compiled(Checked(CHECKS[name]))):
            assert torch.equal(run(good), good * 2)
            with pytest.raises((burn.RunError, RuntimeError)):
                run(bad)


@OLD
def test_an_assertion_about_a_float() -> None:
    """torch.export drops it; Dynamo keeps it."""
    run = compiled(Checked(lambda x: torch._check(x.min().item() >= 0)))
    with torch._dynamo.config.patch(capture_scalar_outputs=True), torch.no_grad():
        assert torch.equal(run(torch.ones(3)), torch.full((3,), 2.0))
        with pytest.raises((burn.RunError, RuntimeError)):
            run(-torch.ones(3))


def test_one_name_for_two_sizes_is_refused() -> None:
    class Two(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x.sum(1), y * 2

    with pytest.raises(burn.ModelError, match="'batch' is 2 in 'x' axis 0 and 5 in 'y' axis 0"):
        burn.compile(Two(), (torch.ones(2, 3), torch.ones(5, 3)), {"x": {0: "batch"}, "y": {0: "batch"}})


# ---- factors in training ------------------------------------------------------------------------------------------------
FACTORED: dict[str, Callable[..., Any]] = {
    "solve": linalg.solve,
    "solve from the right": lambda a, b: linalg.solve(a, b.mT, left=False),
    "det": lambda a, b: linalg.det(a),
    "det of a transpose": lambda a, b: linalg.det(a.mT),
    "slogdet": lambda a, b: linalg.slogdet(a)[1],
    "lu_solve": lambda a, b: linalg.lu_solve(*linalg.lu_factor(a), b),
    "inv": lambda a, b: linalg.inv(a),
}


@pytest.mark.covering
@pytest.mark.parametrize("name", FACTORED)
@pytest.mark.parametrize("shape", [(4, 4), (3, 5, 5)])
def test_factors_have_gradients(name: str, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(3)
    tensors = [torch.randn(s, generator=generator) for s in (shape, (*shape[:-1], 2))]

    def gradients(run: Any, *given: Any) -> list[Any]:
        given = tuple(t.clone().requires_grad_() for t in given)
        run(*given).square().sum().backward()
        return [t.grad for t in given if t.grad is not None]

    got = gradients(compiled(FACTORED[name]), *tensors)
    want = gradients(FACTORED[name], *(t.double() for t in tensors))
    for a, b in zip(got, want, strict=True):
        assert (a - b).abs().max() <= 2e-4 * b.abs().max(), name


# ---- drawn twice --------------------------------------------------------------------------------------------------------
def test_a_checkpoint_draws_the_same_again() -> None:
    """The gradient is that of the mask that the forward pass drew."""

    def dropped(x: Any) -> Any:
        def inner(z: Any) -> Any:
            return torch.nn.functional.dropout(z * z, 0.5, True)

        return torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False)

    x = torch.rand(50, 20) + 1
    run, outputs = compiled(dropped), []
    for _ in range(2):
        given = x.clone().requires_grad_()
        out = run(given)
        out.sum().backward()
        kept = out != 0
        assert 0.4 < kept.float().mean() < 0.6
        assert torch.allclose(given.grad, torch.where(kept, 4 * x, 0.0))
        outputs.append(kept)
    assert not torch.equal(*outputs)


def test_running_extremes_of_bools() -> None:
    x = torch.tensor([[False, True, False], [True, False, True]])
    for function in (torch.cummax, torch.cummin):
        for dim in (0, 1):
            got, want = compiled(lambda t, f=function, d=dim: tuple(f(t, d)))(x), function(x, dim)
            assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True)), (function, dim)


def test_nested_tensors_are_refused_by_name() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
    with pytest.raises(Exception, match=r"nested tensors .* are not supported"):
        compiled(lambda x: x * 2)(nested)
