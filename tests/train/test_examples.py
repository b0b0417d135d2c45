"""The examples that train, as they are."""

from __future__ import annotations

import importlib.util
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples" / "training"


def test_digits(capsys) -> None:
    spec = importlib.util.spec_from_file_location("digits", EXAMPLES / "digits.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main(epochs=10) > 0.85
    assert capsys.readouterr().out.count("epoch") == 10
