"""Weights of Flax: msgpack files and orbax checkpoints, into modules of JAX's and burn's, and back."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn import nn
from burn.dialect.weights import array_weight
from burn.errors import ModelError
from burn.importers.weights import Checkpoint, read, write
from burn.importers.weights import flax as own

os.environ.setdefault("JAX_PLATFORMS", "cpu")
serialization = pytest.importorskip("flax.serialization")
jax = pytest.importorskip("jax")
jnp = jax.numpy

RANDOM = np.random.default_rng(0)
VARIABLES: dict[str, Any] = {
    "params": {
        "Dense_0": {"kernel": RANDOM.normal(size=(3, 4)).astype(np.float32), "bias": np.zeros(4, np.float32)},
        "half": None,
        "empty": np.zeros((0, 3), np.int64),
        "a_name_that_is_longer_than_thirty_one_letters": np.float64(2.5),
    },
    "batch_stats": {"BatchNorm_0": {"mean": np.arange(4, dtype=np.float16)}},
}
NAMES = {
    "Dense_0.kernel", "Dense_0.bias", "half", "empty", "a_name_that_is_longer_than_thirty_one_letters",
    "batch_stats.BatchNorm_0.mean",
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def half() -> None:
    """An array of JAX, which starts its back end: not while tests are collected (tests/conftest.py)."""
    VARIABLES["params"]["half"] = jnp.arange(5, dtype=jnp.bfloat16)


def same(found: Any, variables: Any) -> None:
    assert set(found) == NAMES
    for name, weight in found.items():
        keys = name.split(".") if name.startswith("batch_stats") else ["params", *name.split(".")]
        want = variables
        for key in keys:
            want = want[key]
        assert weight.array().dtype == np.asarray(want).dtype and weight.shape == np.shape(want)
        np.testing.assert_array_equal(weight.array(), np.asarray(want))


def test_msgpack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.msgpack"
    file.write_bytes(serialization.to_bytes(VARIABLES))
    same(read(file), VARIABLES)
    state = {"step": 3, "params": VARIABLES, "opt_state": {"0": {"mu": np.ones(3)}}}
    file.write_bytes(serialization.to_bytes(state))
    found = read(file)
    same(found, VARIABLES)
    assert set(found.ignored) == {"step", "opt_state"}
    monkeypatch.setattr(serialization, "MAX_CHUNK_SIZE", 16)
    file.write_bytes(serialization.to_bytes(VARIABLES))
    same(read(file), VARIABLES)


def test_msgpack_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, other = tmp_path / "model.msgpack", tmp_path / "other.msgpack"
    file.write_bytes(serialization.to_bytes(VARIABLES))
    for largest in (1 << 30, 16):
        monkeypatch.setattr(own, "LARGEST", largest)
        write(other, read(file))
        empty = jax.tree.map(np.zeros_like, VARIABLES)
        jax.tree.map(np.testing.assert_array_equal, serialization.from_bytes(empty, other.read_bytes()), VARIABLES)
        same(read(other), VARIABLES)
    with pytest.raises(ModelError, match="begins with this one's"):
        write(other, {"a": array_weight(np.ones(2)), "a.b": array_weight(np.ones(2))})
    with pytest.raises(ModelError, match="Flax has no int4"):
        write(other, {"a": Checkpoint.of({"a": np.ones(2, "int4")})["a"]})


@pytest.mark.parametrize("write_", ["standard", "pytree", "manager", "files"])
def test_orbax(tmp_path: Path, write_: str) -> None:
    ocp = pytest.importorskip("orbax.checkpoint")
    pytest.importorskip("tensorstore")
    folder = tmp_path / "checkpoint"
    tree = {**VARIABLES, "step": 7}
    tree["params"] = {k: v for k, v in VARIABLES["params"].items() if k != "empty"}
    if write_ == "manager":
        with ocp.CheckpointManager(folder) as manager:
            manager.save(3, args=ocp.args.StandardSave(tree))
            manager.wait_until_finished()
        folder = folder / "3"
    elif write_ == "standard":
        with ocp.StandardCheckpointer() as saver:
            saver.save(folder, tree)
    else:
        ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=write_ == "pytree")).save(folder, tree)
    found = read(folder)
    assert found.ignored == {"step": "the state of a training"}
    assert set(found) == NAMES - {"empty"}
    same({**found, "empty": array_weight(VARIABLES["params"]["empty"])}, VARIABLES)


def test_orbax_that_is_no_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelError, match="is a folder"):
        read(tmp_path)
    metadata = tmp_path / "_METADATA"
    for text, message in (
        ("{", "not JSON"),
        ("{}", "tree_metadata"),
        ('{"tree_metadata": {"a": {}}}', "lacks 'key_metadata'"),
    ):
        metadata.write_text(text)
        with pytest.raises(ModelError, match=message):
            read(tmp_path)
    entry = '{"key_metadata": [{"key": "../../x"}, {"key": ".."}], "value_metadata": {"value_type": "jax.Array"}}'
    metadata.write_text('{"tree_metadata": {"a": %s}}' % entry)  # noqa: UP031
    with pytest.raises(ModelError, match="the keys"):
        read(tmp_path)
    metadata.write_text('{"tree_metadata": {"a": %s}}' % entry.replace('{"key": ".."}', '{"key": "b"}'))  # noqa: UP031
    with pytest.raises(ModelError, match="cannot be read"):
        read(tmp_path)
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    with pytest.raises(ModelError, match=r"burn-mlir\[orbax\]"):
        read(tmp_path)


def test_into_a_module_of_jax(tmp_path: Path) -> None:
    def apply(variables: Any, x: Any) -> Any:
        return x @ variables["params"]["Dense_0"]["kernel"] + variables["params"]["Dense_0"]["bias"]

    variables = {"params": {"Dense_0": VARIABLES["params"]["Dense_0"]}}
    (tmp_path / "m.msgpack").write_bytes(serialization.to_bytes(variables))
    zeros = jax.tree.map(jnp.zeros_like, variables)
    module = burn.compile(burn.from_jax(apply, zeros), ("float32[n, 3]",), train=True)
    assert module.load(tmp_path / "m.msgpack").complete
    x = RANDOM.normal(size=(2, 3)).astype(np.float32)
    np.testing.assert_allclose(module(burn.constant(x)).numpy(), apply(variables, x), rtol=1e-5, atol=1e-6)
    module.save(tmp_path / "again.msgpack")
    again = serialization.from_bytes(zeros, (tmp_path / "again.msgpack").read_bytes())
    jax.tree.map(np.testing.assert_array_equal, again, variables)


def test_into_layers_of_burn(tmp_path: Path) -> None:
    """Dense, Conv, Embed, LayerNorm and BatchNorm of Flax compute the same as burn's layers with their weights."""
    linen = pytest.importorskip("flax.linen")
    ids, image, rows = np.arange(4) % 5, RANDOM.normal(size=(2, 5, 6, 4)).astype(np.float32), RANDOM.normal(size=(2, 6))
    cases: list[tuple[Any, Any, Any, bool]] = [
        (linen.Dense(3), nn.Linear(6, 3), rows.astype(np.float32), False),
        (linen.Dense(3), nn.Linear(6, 3, transposed=True), rows.astype(np.float32), False),
        (linen.Conv(6, (3, 2), padding="VALID", feature_group_count=2), nn.Conv2d(4, 6, (3, 2), groups=2), image, True),
        (linen.Embed(5, 3), nn.Embedding(5, 3), ids, False),
        (linen.LayerNorm(epsilon=1e-5), nn.LayerNorm(6), rows.astype(np.float32), False),
        (linen.BatchNorm(use_running_average=True), nn.BatchNorm2d(4), image, True),
    ]
    for theirs, ours, x, last in cases:
        made = theirs.init(jax.random.key(0), x)
        variables = jax.tree.map(lambda v: jnp.asarray(RANDOM.uniform(0.5, 1.5, v.shape), v.dtype), made)
        (tmp_path / "m.msgpack").write_bytes(serialization.to_bytes(variables))
        assert ours.load(tmp_path / "m.msgpack", remap=[(r"^batch_stats\.", "")]).complete
        y = ours(burn.constant(np.moveaxis(x, -1, 1) if last else x)).numpy()
        want = np.asarray(theirs.apply(variables, x))
        np.testing.assert_allclose(np.moveaxis(y, 1, -1) if last else y, want, rtol=1e-4, atol=1e-5)


CODES = (0, 0, 255, 0xDF, 0xC6, 0xC9, 0x81)
"""Codes of msgpack that announce lengths; 0 stands for any byte."""


def test_damaged_files(tmp_path: Path) -> None:
    """A damaged file is read or refused; nothing that it announces is believed."""
    data = serialization.to_bytes(VARIABLES)
    file = tmp_path / "m.msgpack"
    random = np.random.default_rng(int(os.environ.get("BURN_SWEEP_SEED", "0")))
    refused = 0
    for _ in range(int(os.environ.get("BURN_SWEEP", "300"))):
        changed = bytearray(data)
        for _ in range(random.integers(1, 4)):
            code = CODES[random.integers(len(CODES))]
            changed[random.integers(2, len(data))] = code or int(random.integers(256))
        file.write_bytes(changed[: random.integers(20, len(data))] if random.random() < 0.2 else changed)
        try:
            for weight in read(file).values():
                weight.array()
        except ModelError:
            refused += 1
    assert refused
    for content, message in (
        (b"\x81\xa1a\xdf\xff\xff\xff\xff", "values are announced"),
        (b"\x81\xa1a\xc9\xff\xff\xff\xff\x01", "bytes are announced"),
        (b"\x81\xa1a" + b"\x91" * 200 + b"\xc0", "nested deeper"),
        (b"\x81\xa1a\xc1", "0xc1 is no code"),
        (b"\x82\xa1a\xc0\xa1a\xc0", "given twice"),
        (b"\x81\xa1a\xc0\xc0", "1 bytes follow"),
        (b"\x81\xa1a\xd4\x07\x00", "extension 7"),
    ):
        file.write_bytes(content + b"" * 8)
        with pytest.raises(ModelError, match=message):
            read(file)
