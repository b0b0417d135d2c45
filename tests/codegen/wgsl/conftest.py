"""`webgpu`: tests with it run on a device of WebGPU, and are skipped without one."""

from __future__ import annotations

import pytest

from tests.codegen.wgsl.present import needs_webgpu


@pytest.fixture(scope="session")
def webgpu() -> None:
    """Skips with the reason if there is no device."""
    needs_webgpu()
