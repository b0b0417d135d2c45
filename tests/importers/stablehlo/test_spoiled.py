"""Spoiled programs in every test run: text, generic form and bytecode. `BURN_FUZZ_CASES=n` spoils n of each."""

from __future__ import annotations

import os
from collections import Counter

import pytest

pytest.importorskip("jax")
from burn.importers.stablehlo import parsing
from tests.importers.stablehlo.reference import bytecode
from tests.importers.stablehlo.spoiled import bytecode_case, generic, generic_case, sources, text_case
from tests.importers.stablehlo.tools import NEEDS_TORCH_MLIR_OPT

COUNT = int(os.environ.get("BURN_FUZZ_CASES", "0"))


@NEEDS_TORCH_MLIR_OPT
def test_spoiled_text_is_read_or_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_has_jaxlib", lambda: False)
    texts = sources(8)
    forms = [generic(text) for text in texts[:4]]
    counts: Counter[str] = Counter()
    failed = []
    for seed in range(COUNT or 40):
        for kind, said in (text_case(texts, seed), generic_case(forms, seed)):
            counts[kind] += 1
            failed += [f"seed {seed}: {kind}: {said}"] if kind not in ("ok", "refused") else []
    assert not failed, "\n".join(failed[:5])
    assert counts["refused"] > sum(counts.values()) // 10, "the changes are too weak to say anything"


def test_spoiled_bytecode_is_read_or_refused() -> None:
    programs = [bytecode(text) for text in sources(8) if "chlo." not in text]
    failed = []
    for seed in range(COUNT or 2):
        kind, said = bytecode_case(programs, seed)
        failed += [f"seed {seed}: {kind}: {said}"] if kind not in ("ok", "refused") else []
    assert not failed, "\n".join(failed[:5])
