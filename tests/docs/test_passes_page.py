"""The table of passes in docs/internals/passes.md has every pass of a compilation, in the order of the pipelines."""

from __future__ import annotations

import re

import pytest

from burn.codegen import pipeline as compilation
from burn.codegen.cpu import passes as cpu
from burn.codegen.pipeline import Pipeline
from burn.codegen.triton import backend as triton
from burn.codegen.wgsl import backend as wgsl
from tests.docs.pages import ROOT

OPTIONS = compilation.within_budget(compilation.with_precision(cpu.PIPELINE, "float16"), "bytes=1")


def listed() -> list[str]:
    return re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "internals" / "passes.md").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "pipeline", [cpu.PIPELINE, triton.PIPELINE, wgsl.PIPELINE, OPTIONS], ids=["cpu", "gpu", "wgpu", "options"]
)
def test_order(pipeline: Pipeline) -> None:
    """A pass that runs several times is listed once: its row stands at one of these positions."""
    names = [str(entry).partition("{")[0] for entry in pipeline.entries if isinstance(entry, str)]
    table = listed()
    assert not set(names) - set(table)
    once = [name for name in names if names.count(name) == 1]
    assert once == sorted(once, key=table.index)


def test_rows_are_passes() -> None:
    from burn.passes.pipeline import available

    assert len(set(listed())) == len(listed()) and set(listed()) <= set(available())
