"""PyTorch's models out to ONNX: one file serves every size, and ONNX Runtime gives what burn's own program gives."""

from __future__ import annotations

import numpy as np
import pytest

from burn.compiler import executable
from burn.exporting import program_of
from tests.exporters.onnx.building import close, exported
from tests.exporters.onnx.sweep import ort_session

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

NAMES = ("BERT-base", "GPT-2 small with cache", "ViT", "Llama-style decoder", "T5-small", "Whisper-tiny encoder",
         "ResNet-50", "U-Net")  # fmt: skip
FAST = (("Llama-style decoder", 23),)
"""In every run: its attention is one op from opset 23 on; other tests write that out for opset 21."""


@pytest.mark.parametrize(
    ("name", "opset"),
    [pytest.param(n, o, marks=[pytest.mark.slow] * ((n, o) not in FAST)) for n in NAMES for o in (21, 23)],
)
def test_model(name: str, opset: int) -> None:
    from tests.models.torch_models import MODELS

    case = MODELS[name]
    module = case.build(False)
    program = program_of(module, case.inputs(module, *case.sizes[0]), case.dynamic)
    run, session = executable(program.copy()), ort_session(exported(program, opset))
    taken = [value.name for value in session.get_inputs()]
    for size in case.sizes:
        leaves = torch.utils._pytree.tree_leaves(case.inputs(module, *size))
        arrays = [leaf.detach().numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]
        feeds = dict(zip(program.input_names, arrays, strict=True))
        want = run(*feeds.values())
        close(
            session.run(None, {n: feeds[n] for n in taken}),
            list(want) if isinstance(want, tuple) else [np.asarray(want)],
        )


def test_what_a_module_changes_is_an_output() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(3))

        def forward(self, x):
            self.count.add_(x)
            return self.count * 2

    model = exported(program_of(Counter(), (torch.ones(3),)))
    inputs, outputs = ([v.name for v in side] for side in (model.graph.input, model.graph.output))
    assert len(inputs) == 2 and len(outputs) == 2 and set(inputs).isdisjoint(outputs)
    feeds = dict.fromkeys(inputs, np.ones(3, np.float32))
    assert sorted(r[0] for r in ort_session(model).run(None, feeds)) == [2.0, 4.0]
