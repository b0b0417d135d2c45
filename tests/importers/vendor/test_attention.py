"""Attention of com.microsoft: what was once left aside, a case each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from burn.errors import ModelError
from burn.importers.onnx import import_onnx
from tests.importers.vendor.case import Case, Draw, compiled, judge
from tests.importers.vendor.references import grouped_attention
from tests.releases import release

HEADS, DEPTH = 2, 16
OLD = release("onnxruntime") < (1, 31)
WRONG_CACHE = "before 1.31, ONNX Runtime does not write new keys into a cache that has room (past_sequence_length)"


def grouped(length: int, past: int | None = None, room: int = 0, rows: int = 1, **given: Any) -> Case:
    """GroupQueryAttention with one key head. given: attributes, and operands as i9, i11 .."""
    d, total = Draw(3), length + (past or 0)
    operands: list[Any] = [
        *(d.f(rows, length, width * DEPTH) for width in (HEADS, 1, 1)),
        *((d.f(rows, 1, room or past, DEPTH) if past is not None else None) for _ in range(2)),
        np.full(rows, total - 1, np.int32),
        np.array(total, np.int32),
        *[None] * 9,
    ]
    attributes = {"num_heads": HEADS, "kv_num_heads": 1}
    for name, value in given.items():
        if name[1:].isdigit():
            operands[int(name[1:])] = value
        else:
            attributes[name] = value
    return Case("GroupQueryAttention", operands, attributes, 3, truth=grouped_attention, both=True)


ANGLES = np.outer(np.arange(32), 100.0 ** (-np.arange(8) / 8)).astype(np.float32)
ROTARY = {"do_rotary": 1, "i7": np.cos(ANGLES), "i8": np.sin(ANGLES)}
CASES = {
    "plain": grouped(4),
    "smooth_softmax": grouped(4, smooth_softmax=1),
    "head_sink": grouped(4, i11=np.array([0.5, -1.0], np.float32)),
    "not causal": grouped(4, causal=0),
    "norm weights": grouped(3, i14=np.linspace(0.5, 2, DEPTH, dtype=np.float32), i15=np.ones(DEPTH, np.float32)),
    "position_ids of a token": grouped(1, 3, **ROTARY, i9=np.array([[11]])),
    "position_ids of a prompt": grouped(4, 0, rows=2, **ROTARY, i9=np.array([[2, 9, 4, 5], [1, 2, 7, 3]])),
    "a cache with room": grouped(1, 4, room=12),
    "a window and a cap": grouped(5, 2, local_window_size=2, softcap=1.5),
}


@pytest.mark.parametrize("name", CASES)
def test_grouped_attention(name: str) -> None:
    outcome = judge(CASES[name])
    assert outcome.kind == "ok", outcome.detail


@pytest.mark.skipif(OLD, reason=WRONG_CACHE)
def test_a_part_of_the_cache_is_filled() -> None:
    """past_sequence_length of MultiHeadAttention: the cache keeps its size, and keys behind its end are not seen."""
    d = Draw(1)
    new = [d.f(1, 1, HEADS * DEPTH) for _ in range(3)]
    operands = [*new, None, None, None, d.f(1, HEADS, 6, DEPTH), d.f(1, HEADS, 6, DEPTH), np.array([3], np.int32)]
    case = Case("MultiHeadAttention", operands, {"num_heads": HEADS}, 3)
    for sizes in ("fixed", "apart"):
        assert judge(replace(case, open={6: (0, 2), 7: (0, 2)}), sizes).kind == "ok"
    full = replace(case, operands=[*operands[:8], np.array([6], np.int32)])
    assert judge(full).kind == "run failed"


def masked(columns: int) -> Case:
    """Attention whose mask has a size of its own, and must have one for each key."""
    d = Draw(2)
    operands = [d.f(1, 5, 32), d.f(32, 96), d.f(96), np.ones((1, columns), np.int32), d.f(2, 1, 2, 4, 16)]
    free = {0: (0, 1), 3: (0, 1), 4: (1, 3)}
    return Case("Attention", operands, {"num_heads": 2, "unidirectional": 1}, 2, (1, 2), open=free)


def test_the_size_of_a_mask_is_checked_when_the_program_runs() -> None:
    assert judge(masked(9), "apart", compiled).kind == "ok"
    for columns in (1, 8, 10):  # one column would broadcast
        assert judge(masked(columns), "apart").kind == "run failed"
        with pytest.raises(ModelError, match="the mask's number of keys must be 9"):
            import_onnx(masked(columns).model())


def test_softmax_of_quantised_numbers_before_opset_13() -> None:
    """One softmax over all axes from `axis` on."""
    x = Draw(0).bytes(np.uint8, 1, 3, 4)
    scales = [np.array(s, np.float32) for s in (0.05, 1 / 256)]
    operands = [x, scales[0], np.array(128, np.uint8), scales[1], np.array(0, np.uint8)]
    case = Case("QLinearSoftmax", operands, {"axis": 1, "opset": 12}, constant=(1, 2, 3, 4))
    assert judge(case).kind == "ok"
    (found,) = compiled(case.model(), case.feeds())
    assert 240 < found.astype(int).sum() < 270


def test_an_activation_has_parameters() -> None:
    d = Draw(0)
    case = Case("FusedGemm", [d.f(2, 3), d.f(3, 4), d.f(4)], {"activation": "LeakyRelu", "activation_alpha": 0.1})
    assert judge(case).kind == "ok"
    with pytest.raises(ModelError, match="'activation_alpha': is missing"):
        import_onnx(Case("FusedGemm", case.operands, {"activation": "LeakyRelu"}).model())
