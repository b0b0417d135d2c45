"""The log of compilations, and the warning about functions that compile often."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.runtime.compilations import MANY, RecompileWarning


def f(x: burn.Tensor, flag: bool = True) -> burn.Tensor:
    return x * 2.0 if flag else x


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Callable[[], list[str]]:
    caplog.set_level(logging.INFO, logger="burn.compile")
    return lambda: [record.message for record in caplog.records]


def test_log_says_what_and_why(log: Callable[[], list[str]]) -> None:
    run = burn.jit(f)
    calls: list[tuple[Any, ...]] = [(2, "float32"), (3, "float32"), (3, "int32")]
    for length, dtype in calls:
        run(np.zeros(length, dtype))
        run(np.zeros(length, dtype))
    run(np.zeros(3, np.int32), False)
    messages = [message.rpartition(": ")[0] for message in log()]
    assert messages == [
        "f: the first call",
        "f: the shape of 'x' differs: float32[3], not float32[2]",
        "f: the element type of 'x' differs: int32[3], not float32[3]",
        "f: other arguments were passed: x, flag",
    ]
    assert all("1 kernel, compiled in " in message or "0 kernels" in message for message in log())


def test_values_and_modules(log: Callable[[], list[str]]) -> None:
    run = burn.jit(lambda x, flag: x + 1.0 if flag else x)
    run(np.zeros(2, np.float32), True)
    run(np.zeros(2, np.float32), False)
    assert "the value of 'flag' differs, which is static: False" in log()[-1]
    model = nn.Dropout(0.5).train()
    predict = burn.jit(lambda x: model(x))
    predict(np.zeros(2, np.float32))
    model.eval()
    predict(np.zeros(2, np.float32))
    assert "an attribute of a module" in log()[-1]


def test_lazy_tensors_are_logged_with_their_line(log: Callable[[], list[str]]) -> None:
    float((burn.ones(7) * 3.25).sum())
    assert log()[-1].startswith("lazy tensors (test_compilations.py:")


def test_programs_from_the_cache(log: Callable[[], list[str]], own_cache: object) -> None:
    for _ in range(2):
        burn.compile(f, ("float32[5]",))
    assert ["from the cache" in message for message in log()] == [False, True]


def test_the_environment_prints_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    logger = logging.getLogger("burn.compile")
    level = logger.level
    monkeypatch.setenv("BURN_LOG", "compile")
    try:
        burn.jit(f)(np.zeros(2, np.float32))
        assert capsys.readouterr().err.startswith("burn: f: the first call: 1 kernel, compiled in ")
    finally:
        logger.handlers.clear()
        logger.setLevel(level)


def test_many_compilations_warn_once_with_the_reason() -> None:
    run = burn.jit(f)
    with pytest.warns(RecompileWarning) as caught:
        for length in range(1, MANY + 3):
            run(np.zeros(length, np.float32))
    assert len(caught) == 1
    text = str(caught[0].message)
    assert text.startswith(f"f was compiled {MANY} times, {MANY - 1} of them because the shape of 'x' differs")
    assert "float32[8], not float32[7]" in text and caught[0].filename == __file__


def test_named_sizes_do_not_warn() -> None:
    run = burn.jit(f, dynamic={"x": {0: "n"}})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for length in range(1, MANY + 3):
            run(np.zeros(length, np.float32))
