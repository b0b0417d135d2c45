"""Models that ONNX Runtime's tools optimised and quantised, through burn: a few in every run, all in slow ones.

BURN_SWEEP draws so many more, by BURN_SWEEP_SEED; `python -m tests.optimised` prints them all."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
pytest.importorskip("onnxruntime")

from tests.optimised.tools import Unfit
from tests.optimised.ways import Case, cases, differences, write

pytestmark = pytest.mark.filterwarnings("ignore")
QUICK = (
    (Case("new_bert", "torchscript", "fused", "float"), ("import",)),
    (Case("lstm", "torchscript", "basic", "float"), ("load", "import", "export")),
)
SWEEP = int(os.environ.get("BURN_SWEEP", "0"))
SEED = int(os.environ.get("BURN_SWEEP_SEED", "29"))


def failures(case: Case, folder: Path, ways: tuple[str, ...]) -> list[str]:
    path = write(case, folder)
    return [f"{case.name} {way}: {told}" for way, _, told in differences(case, path, list(ways)) if told]


@pytest.mark.parametrize(("case", "ways"), QUICK, ids=lambda value: getattr(value, "name", ""))
def test_some(case: Case, ways: tuple[str, ...], tmp_path: Path) -> None:
    assert not failures(case, tmp_path, ways)


def test_drawn(tmp_path: Path) -> None:
    if not SWEEP:
        pytest.skip("BURN_SWEEP says how many are drawn")
    failed = []
    for case in random.Random(SEED).sample(cases(), min(SWEEP, len(cases()))):
        try:
            failed += failures(case, tmp_path, ("load", "import", "export"))
        except Unfit:
            continue  # ONNX Runtime's tools do not make it
    assert not failed, "\n".join(failed)


@pytest.mark.slow
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_all(case: Case, tmp_path: Path) -> None:
    try:
        assert not failures(case, tmp_path, ("load", "import", "export"))
    except Unfit as reason:
        pytest.skip(str(reason))
