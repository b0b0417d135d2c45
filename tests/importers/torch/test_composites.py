"""torch looks up composite operators once for each import, not for each namespace of operators."""

from __future__ import annotations

import pytest
import torch
from torch._export import utils

from burn.importers.torch import composites, import_exported


class Module(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x)


def test_once_for_each_import(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library may register operators between two imports, so each looks them up."""
    calls, find = [], utils._materialize_cpp_cia_ops

    def counted() -> None:
        calls.append(1)
        find()

    monkeypatch.setattr(utils, "_materialize_cpp_cia_ops", counted)
    monkeypatch.setattr(composites, "_find", counted)
    exported = torch.export.export(Module(), (torch.ones(3, 5),))
    calls.clear()
    for count in (1, 2):
        import_exported(exported)
        assert len(calls) == count
    assert utils._materialize_cpp_cia_ops is counted
