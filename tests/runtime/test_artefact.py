"""The artefact's file: what is written is read back, and damage is refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from burn.errors import ModelError
from burn.runtime.artefact import Artefact, Constant, KernelInfo, Signature, Target, ValueSpec, decode
from tests.fuzz.spoiled_caches.sources import full


def example() -> Artefact:
    values = np.arange(100, dtype=np.float32).reshape(4, 25)
    return Artefact(
        signature=Signature(
            inputs=(ValueSpec("x", "float32", ("n", "2*n + 1", 4), donated_to=0), ValueSpec("k", "int64", ())),
            outputs=(ValueSpec("y", "bfloat16", ("n",)),),
            random_state=True,
        ),
        target=Target("x86_64-unknown-linux-gnu", ("avx2", "fma")),
        code=bytes(range(251)) * 5,
        constants=(
            Constant.of(values),
            Constant.of(np.array([1.5, -2], ml_dtypes.bfloat16)),
            Constant.of(np.zeros((3, 0), np.int64)),
            Constant.of(np.array(True)),
        ),
        live_ranges=((0, 3), (2, 2)),
        kernels=(KernelInfo("k0", "gemm", ("MatMul_1", "Add_2"), "2*n*100", "min(n, 4)*8"),),
        sites=("Gather_7",),
    )


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    saved = example()
    saved.save(tmp_path / "program.burn")
    loaded = Artefact.load(tmp_path / "program.burn")
    for name in ("signature", "target", "live_ranges", "kernels", "sites", "entry", "burn_version"):
        assert getattr(loaded, name) == getattr(saved, name), name
    assert bytes(loaded.code) == saved.code
    for before, after in zip(saved.constants, loaded.constants, strict=True):
        assert (before.dtype, before.shape) == (after.dtype, after.shape)
        np.testing.assert_array_equal(before.array(), after.array())
        assert after.array().ctypes.data % 64 == 0
    assert [path.name for path in tmp_path.iterdir()] == ["program.burn"]


def test_lists_and_flags_of_other_types_are_refused() -> None:
    """At every list and flag of a header that holds each field: text is not taken for a list of its letters."""
    artefact = full()
    constants = bytearray()
    offsets = []
    for constant in artefact.constants:
        constants += bytes(-len(constants) % 64)
        offsets.append(len(constants))
        constants += constant.data
    header, code = artefact.header(0, offsets)
    text = json.dumps(header)

    def read(tree: object) -> Artefact:
        return decode(tree, memoryview(code), memoryview(constants))

    assert read(json.loads(text)).signature == artefact.signature
    wanted = list(lists_and_flags(json.loads(text)))
    tried = 0
    for number, (name, node, key) in enumerate(wanted):
        others = (0, None, "yes") if isinstance(node[key], bool) else ({}, "", "ab", {"ab": 1}, True)
        for other in others:
            tree = json.loads(text)
            _, changed, _ = list(lists_and_flags(tree))[number]
            changed[key] = other
            with pytest.raises((TypeError, ValueError, KeyError, AttributeError)):
                pytest.fail(f"{name} = {other!r} was read as {read(tree)}")
            tried += 1
    assert len(wanted) > 40 and tried > 150


def lists_and_flags(node: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """The lists and flags in a tree: their names, and where they are."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ():
        if isinstance(value, (list, bool)):
            yield f"{name}.{key}", node, key
        yield from lists_and_flags(value, f"{name}.{key}")


def test_a_failed_save_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "program.burn"
    path.write_bytes(b"what was there")

    def full(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="disk full"):
        example().save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["program.burn"]
    assert path.read_bytes() == b"what was there"


def test_damage_is_refused_or_harmless(tmp_path: Path) -> None:
    """Any byte of the prefix, header, code or constants changed is noticed."""
    path = tmp_path / "program.burn"
    example().save(path)
    whole = path.read_bytes()
    header_end = whole.index(b"\0", 128)
    code_at = whole.index(example().code)
    constants_at = int.from_bytes(whole[56:64], "little")
    prefix = [position for position in range(112) if not 12 <= position < 16]  # those four are reserved
    generator = random.Random(0)
    for position in [
        *prefix,
        *generator.sample(range(128, header_end), 200),
        *generator.sample(range(code_at, code_at + len(example().code)), 100),
        *(constants_at + position for position in range(memoryview(example().constants[0].data).nbytes)),
    ]:
        damaged = bytearray(whole)
        damaged[position] ^= 0x55 if position == 64 else generator.randrange(1, 256)  # constants end a little earlier
        path.write_bytes(damaged)
        with pytest.raises(ModelError):
            Artefact.load(path)
    for length in [0, 1, 7, 127, 128, 500, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(ModelError):
            Artefact.load(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda h: h.pop("signature"),
        lambda h: h["signature"]["inputs"][0].update(dtype="float33"),
        lambda h: h["signature"]["inputs"][0].update(dims=["__import__('os')"]),
        lambda h: h["signature"]["inputs"][0].update(dims=[-1]),
        lambda h: h["signature"]["inputs"][0].update(dims=[1] * 70),
        lambda h: h["signature"]["inputs"][0].update(donated_to=5),
        lambda h: h["constants"][0].update(offset=4),
        lambda h: h["constants"][0].update(offset=1 << 62),
        lambda h: h["constants"][0].update(bytes=1 << 62, shape=[1 << 60]),
        lambda h: h["constants"][0].update(shape=[1 << 40, 1 << 40]),
        lambda h: h["constants"][0].update(dtype="string"),
        lambda h: h["kernels"][0].update(flops="n.__class__"),
        lambda h: h.update(live_ranges=[[0, "1"]]),
        lambda h: h.update(buffers=["8"] * 7),
        lambda h: h.update(buffers=["n.__class__"]),
        lambda h: h["kernels"][0].update(reads=[-1]),
        lambda h: h["kernels"][0].update(step="1"),
        lambda h: h["code"].update(offset=64 * 1000),
        lambda h: h["code"].update(offset=1),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change) -> None:
    """The checksum is right here: the file was made that way."""
    path = tmp_path / "program.burn"
    honest = json.dumps

    def dumps(header: dict, **options: object) -> str:
        header = json.loads(honest(header))
        change(header["programs"][0])
        return honest(header)

    monkeypatch.setattr("burn.runtime.package.json.dumps", dumps)
    example().save(path)
    monkeypatch.undo()
    with pytest.raises(ModelError, match="malformed"):
        Artefact.load(path)


def test_a_missing_file_is_an_error_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"nothing\.burn"):
        Artefact.load(tmp_path / "nothing.burn")
