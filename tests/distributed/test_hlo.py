"""Collectives read from the text of compiled modules."""

from __future__ import annotations

from burn.distributed.communication import Communication
from burn.distributed.xla.hlo import collectives

TEXT = """HloModule jit_main, is_scheduled=true

%add (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
}

%body (p: (s32[], f32[4,8])) -> (s32[], f32[4,8]) {
  %all-gather.1 = bf16[8,8]{1,0} all-gather(%x), channel_id=3, replica_groups=[4,2]<=[2,4]T(1,0), dimensions={0}
}

%cond (p: (s32[], f32[4,8])) -> pred[] {
  %all-reduce.9 = pred[] all-reduce(%y), replica_groups={}, to_apply=%add
}

%open (p: f32[3]) -> f32[3] {
  %r = f32[3]{0} collective-permute(%p), source_target_pairs={{0,0},{1,2},{2,1}}
}

ENTRY %main (p0: f32[4,8]) -> f32[4,8] {
  %all-reduce.2 = (f32[16]{0}, /*index=1*/f64[]) all-reduce(%a, %b), channel_id=1, replica_groups=[1,8]<=[8], to_apply=%add
  %rs = f32[2]{0} reduce-scatter(%c), replica_groups={{0,1,2,3},{4,5,6,7}}, dimensions={0}, to_apply=%add
  %ag = (f32[2]{0}, f32[8]{0}) all-gather-start(%d), replica_groups=[2,4]<=[8], dimensions={0}
  %agd = f32[8]{0} all-gather-done(%ag)
  %w = (s32[], f32[4,8]) while(%t), condition=%cond, body=%body, backend_config={"known_trip_count":{"n":"5"}}
  %v = f32[3] while(%t), condition=%cond, body=%open
  ROOT %a2a = (s8[4]{0}, s8[4]{0}) all-to-all(%e, %f), replica_groups={{0,4},{1,5},{2,6},{3,7}}
}
"""
SIZES = {"data": 2, "model": 4}


def test_collectives() -> None:
    found = {(c.kind, c.axes, c.group): c for c in collectives(TEXT, SIZES)}
    every = found["all-reduce", ("data", "model"), 8]
    assert (every.bytes, every.times, every.sent) in {(72, 1, 126), (1, 6, 1)}
    scattered = found["reduce-scatter", ("model",), 4]
    assert (scattered.bytes, scattered.sent) == (32, 24)
    assert found["all-gather", ("model",), 4].bytes == 32
    inner = found["all-gather", ("data",), 2]
    assert (inner.bytes, inner.times, inner.is_known) == (128, 5, True)
    moved = found["collective-permute", ("model",), 2]
    assert (moved.bytes, moved.sent, moved.is_known) == (12, 12, False)
    assert (found["all-to-all", ("data",), 2].bytes, found["all-to-all", ("data",), 2].sent) == (8, 4)
    assert len(list(collectives(TEXT, SIZES))) == 7


def test_report() -> None:
    told = Communication(SIZES, tuple(collectives(TEXT, SIZES)), 100, 200, 3e9)
    assert told.bytes == {
        "all-reduce": 72 + 6, "all-gather": 32 + 5 * 128, "reduce-scatter": 32, "all-to-all": 8, "collective-permute": 12,
        "collective-broadcast": 0,
    }  # fmt: skip
    assert told.along("data") == 126 + 6 * 1 + 5 * 64 + 4
    assert told.sent == 126 + 6 + 24 + 24 + 5 * 64 + 12 + 4
    assert told.seconds(258.0) == told.sent / 258.0
    text = str(told)
    assert "data=2 x model=4: each device sends 516 bytes" in text and "model, in a loop" in text
    assert "arguments 100 bytes, temporaries 200 bytes, 3e+09 flops" in text
