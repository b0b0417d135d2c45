"""Copies of convolutions' weights, transposed and flipped, in few launches."""

from __future__ import annotations

import numpy as np
import torch

import burn
from burn import optim, train
from burn.codegen.triton.heuristics.preferences import PREFERENCES
from burn.dialect.mlir import context
from burn.dialect.text import parse_text
from burn.kernels.body import LoopKernel
from burn.kernels.builders import kernels
from burn.kernels.text import groups
from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.kernels.interpreting import interpreted


class Convolutions(torch.nn.Module):
    """Several sizes of windows and strides."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Conv2d(3, 8, 3, stride=2, padding=1),
            torch.nn.Conv2d(8, 8, 3, padding=1, groups=8),
            torch.nn.Conv2d(8, 16, 1),
            torch.nn.Conv2d(16, 16, 5, padding=2, groups=16),
            torch.nn.Conv2d(16, 8, 3, padding=1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x).tanh()


def test_steps_of_convolutions_copy_weights_in_few_launches(gpu: SimulatedGPU) -> None:
    """Gradients beside torch's in float64; no kernel of its own transposes one weight."""
    torch.manual_seed(0)
    module, x = Convolutions(), torch.randn(2, 3, 9, 9)
    twin = burn.compile(module, (x,), train=True)
    parameters = dict(twin.named_parameters())
    before = {key: np.asarray(p, "f8") for key, p in parameters.items()}
    step = train.step(
        twin, lambda m, x: (m(x) ** 2.0).mean(), optim.SGD(twin, lr=1.0), device="cuda", precision="float16"
    )
    step(burn.tensor(x.numpy()).to("cuda"))
    reference = module.double()
    (reference(x.double()) ** 2.0).mean().backward()
    for key, p in reference.named_parameters():
        assert p.grad is not None
        want = p.grad.numpy()
        error = np.linalg.norm(before[key] - np.asarray(parameters[key], "f8") - want) / np.linalg.norm(want)
        assert error < 2e-2, key
    kernels = step.executable.artefact.kernels
    assert not {"transpose", "slice+transpose"} & {kernel.name for kernel in kernels}
    assert any(kernel.kind == "foreach" and "transpose" in kernel.name for kernel in kernels)


def test_results_that_read_one_view_are_computed_apart() -> None:
    """A loop over a slice, and loops over transposes and a part of this slice, which has fewer elements."""
    text = """
func.func @main(%p: tensor<6x5x3xf32>) -> (tensor<3x6x4xf32>, tensor<4x3x6xf32>, tensor<6x4x3xf32>, tensor<2x4x3xf32>) {
  %0:4 = "burn.group"(%p) ({
  ^bb0(%a: tensor<6x5x3xf32>):
    %1 = "burn.slice"(%a) {starts = ["0", "4", "0"], sizes = ["6", "4", "3"], steps = array<i64: 1, -1, 1>}
      : (tensor<6x5x3xf32>) -> tensor<6x4x3xf32>
    %2 = "burn.transpose"(%1) {permutation = array<i64: 2, 0, 1>} : (tensor<6x4x3xf32>) -> tensor<3x6x4xf32>
    %3 = "burn.transpose"(%1) {permutation = array<i64: 1, 2, 0>} : (tensor<6x4x3xf32>) -> tensor<4x3x6xf32>
    %4 = "burn.neg"(%1) : (tensor<6x4x3xf32>) -> tensor<6x4x3xf32>
    %5 = "burn.slice"(%1) {starts = ["1", "0", "0"], sizes = ["2", "4", "3"], steps = array<i64: 3, 1, 1>}
      : (tensor<6x4x3xf32>) -> tensor<2x4x3xf32>
    %6 = "burn.abs"(%5) : (tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
    "burn.yield"(%2, %3, %4, %6) : (tensor<3x6x4xf32>, tensor<4x3x6xf32>, tensor<6x4x3xf32>, tensor<2x4x3xf32>) -> ()
  }) {kind = "foreach"} : (tensor<6x5x3xf32>)
    -> (tensor<3x6x4xf32>, tensor<4x3x6xf32>, tensor<6x4x3xf32>, tensor<2x4x3xf32>)
  "burn.return"(%0#0, %0#1, %0#2, %0#3)
    : (tensor<3x6x4xf32>, tensor<4x3x6xf32>, tensor<6x4x3xf32>, tensor<2x4x3xf32>) -> ()
}
"""
    program = parse_text(text)
    p = np.random.default_rng(1).standard_normal((6, 5, 3), "f4")
    x = p[:, 4:0:-1]
    found = interpreted(program, [p], preferences=PREFERENCES)
    for got, want in zip(found, (x.transpose(2, 0, 1), x.transpose(1, 2, 0), -x, np.abs(x[1::3])), strict=True):
        np.testing.assert_array_equal(got, want)
    with context():
        (group,) = groups(program.block)
        made = [call.kernel for call in kernels(group, PREFERENCES)]
    spaces = [tuple(v.extent for v in kernel.parallel) for kernel in made if isinstance(kernel, LoopKernel)]
    assert spaces == [(3, 6, 4), (4, 3, 6), (6, 4, 3), (2, 4, 3)]
