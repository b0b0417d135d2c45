"""Settings of datasets, loaders, optimizers and steps of wrong Python types: one error that names them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import data, nn, optim
from burn.errors import BurnError, DataError, TypeMismatch

ROWS = data.Memory((np.ones((20, 4), np.float32), np.zeros(20, np.int64)))
MODEL = nn.Linear(4, 3)


def loss(model: nn.Linear, x: Any, y: Any) -> Any:
    return nn.CrossEntropyLoss()(model(x), y)


def step(**options: Any) -> Any:
    return burn.train.step(MODEL, loss, optim.SGD(MODEL, lr=0.1), **options)


CASES: dict[str, tuple[Callable[[], Any], type[BurnError], str]] = {
    "row by text": (lambda: ROWS["a"], TypeMismatch, "the number of a row is an integer\n  - not 'a'"),
    "row by a fraction": (lambda: ROWS[1.5], TypeMismatch, "not 1.5"),
    "parts": (lambda: ROWS.split("a"), DataError, "parts of a dataset are fractions or lengths"),  # type: ignore[arg-type]
    "batch size, text": (lambda: data.Loader(ROWS, "a"), DataError, "is 'a', and no integer"),  # type: ignore[arg-type]
    "batch size, fraction": (lambda: data.Loader(ROWS, 2.5), DataError, "is 2.5, and no integer"),  # type: ignore[arg-type]
    "seed": (lambda: data.Loader(ROWS, 4, seed="a"), DataError, "is 'a', and no integer"),  # type: ignore[arg-type]
    "lr": (lambda: optim.SGD(MODEL, lr="a"), TypeMismatch, "lr is 'a', and neither a number nor a schedule"),  # type: ignore[arg-type]
    "precision": (lambda: step(precision=[]), TypeMismatch, r"there is no training in \[\]"),
    "accumulate": (lambda: step(accumulate="a"), TypeMismatch, "accumulate is 'a'"),
    "clip_norm": (lambda: step(clip_norm="a"), TypeMismatch, "clip_norm is 'a'"),
}


@pytest.mark.parametrize("name", CASES)
def test_settings_of_wrong_types_are_named(name: str) -> None:
    make, error, message = CASES[name]
    with pytest.raises(error, match=message):
        make()


def test_numpys_integers_are_settings() -> None:
    size: Any = np.int64(5)
    assert len(data.Loader(ROWS, size)) == 4
    assert [len(part) for part in ROWS.split(size, size * 3)] == [5, 15]


def test_types_of_columns_are_functions(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("a,b\n1,2\n")
    with pytest.raises(DataError, match="types are functions of strings"):
        data.Csv(tmp_path / "c.csv", types="int")  # type: ignore[arg-type]
