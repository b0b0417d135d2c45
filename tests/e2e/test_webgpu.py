"""Whole models on device="wgpu" compute the CPU's numbers, without a kernel on the host."""

from __future__ import annotations

import pytest

import burn
from tests.codegen.wgsl.conftest import webgpu  # noqa: F401  the fixture that skips without a device
from tests.e2e.test_models import _path, assert_close
from tests.models import MODELS, Exporter, instances, random_inputs, sizes_to_try

QUICK = (("mnist", None),)
"""The models of every test run; the others have the marker `slow`: llvmpipe takes minutes for some."""

ALL = [
    pytest.param(*pair, id=".".join(filter(None, pair)), marks=[] if pair in QUICK else [pytest.mark.slow])
    for pair in instances()
]


@pytest.mark.usefixtures("webgpu")
@pytest.mark.parametrize(("name", "exporter"), ALL)
def test_webgpu_computes_what_the_cpu_computes(name: str, exporter: Exporter | None) -> None:
    feeds = random_inputs(MODELS[name], 0, **next(iter(sizes_to_try(MODELS[name].sizes))))
    path = _path(name, exporter)
    made = burn.load(path, device="wgpu", cache=False)
    assert_close(made.run(feeds), burn.load(path).run(feeds))
    assert not [kernel for kernel in made.artefact.kernels if kernel.kind == "host"]
