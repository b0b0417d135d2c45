"""The tool that compares generated code: the same code twice is no difference, another digest is one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.generated.__main__ import main

SMALL = ["--programs", "few_bits", "--devices", "avx2", "sm_90"]


def test_the_same_code_and_other_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    digests, texts = tmp_path / "before.json", tmp_path / "texts"
    assert main(["--write", str(digests), "--texts", str(texts), *SMALL]) == 0
    assert "@kernel" in (texts / "few_bits" / "avx2" / "burn_entry").read_text()
    assert any("tl.store" in file.read_text() for file in (texts / "few_bits" / "sm_90").iterdir())
    assert main(["--compare", str(digests), *SMALL]) == 0
    before = json.loads(digests.read_text())
    before["few_bits sm_90"]["burn_entry"] = "0"
    del before["few_bits avx2"]["kernel0"]
    digests.write_text(json.dumps(before))
    capsys.readouterr()
    assert main(["--compare", str(digests), *SMALL]) == 1
    told = capsys.readouterr().out
    assert "few_bits sm_90: burn_entry differs" in told and "few_bits avx2: kernel0 new" in told
    assert "2 differ" in told
