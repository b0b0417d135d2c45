"""Kernels that update many tensors, which are not the default."""

from __future__ import annotations

from dataclasses import replace

import pytest

from burn.codegen.triton.heuristics import preferences


def set_foreach(patch: pytest.MonkeyPatch, number: int = preferences.FOREACH) -> None:
    """Sets `Preferences.foreach` of GPUs until the end of the test."""
    patch.setattr(preferences, "PREFERENCES", replace(preferences.PREFERENCES, foreach=number))
