"""Compiled trainings whose C code carries the compiler's sanitizers: hostile checkpoints and .npz files, and threads.

`BURN_SWEEP=2000` draws so many damaged files of each kind; 150 by default."""

from __future__ import annotations

import os
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import burn
from burn.deploy import trainers, training
from burn.dialect.weights import Weight, array_weight
from burn.train import checkpoints
from tests.deploy.making import options, run
from tests.deploy.test_sanitized import _sanitized
from tests.deploy.training import CASES, made

pytestmark = [pytest.mark.sanitized, pytest.mark.slow]  # the whole runtime is compiled anew for each

CASES_OF_EACH = int(os.environ.get("BURN_SWEEP", 150))
SEED = int(os.environ.get("BURN_SWEEP_SEED", 0))
STRANGE = (
    0,
    -1,
    1,
    2**31,
    2**62,
    2**63 - 1,
    2**64,
    2**70,
    -(2**63),
    0.5,
    1e308,
    "",
    "x" * 5000,
    '\u20ac\\"',
    None,
    True,
    [],
    {},
)


def _damaged(draw: random.Random, data: bytes, start: int, end: int) -> bytes:
    """A file with bytes of a range that are changed, inserted, repeated or cut off."""
    content = bytearray(data)
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(start, min(end, len(content))) if len(content) > start else 0
        match draw.randrange(5):
            case 0:
                content[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                content[at:at] = bytes(draw.choices(b'{}[]",:\\0129\x00\xff', k=draw.randint(1, 9)))
            case 2:
                content[at:at] = content[at : at + draw.randint(1, 60)]
            case 3:
                del content[at : at + draw.randint(1, 60)]
            case _:
                content[at : at + 8] = struct.pack(
                    "<Q", draw.choice([0, 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, len(data)])
                )
    return bytes(content) if draw.random() > 0.1 else bytes(content[: draw.randrange(len(content) + 1)])


def _drawn_checkpoint(draw: random.Random, found: Any) -> tuple[dict[str, Weight], dict[str, Any]]:
    """A checkpoint with valid checksums whose tensors and facts are not this training's."""
    tensors, facts = dict(found.tensors), dict(found.facts)
    for _ in range(draw.randint(0, 3)):
        name = draw.choice([*tensors])
        match draw.randrange(4):
            case 0:
                del tensors[name]
            case 1:
                tensors[draw.choice([f"{name}x", "optimizer.count.other", "step.", "", "model." + "y" * 3000])] = (
                    tensors[name]
                )
            case 2:
                shape = [draw.randrange(4) for _ in range(draw.randrange(5))]
                dtype = draw.choice(["float32", "float64", "int64", "int8"])
                tensors[name] = array_weight(np.zeros(shape, dtype))
            case _:
                facts.pop(draw.choice([*facts]), None)
        if not tensors:
            break
    for _ in range(draw.randint(0, 3)):
        facts[draw.choice([*facts, "step", "data", "frozen", "random", "format"])] = draw.choice(STRANGE)
    if isinstance(facts.get("data"), dict) and draw.random() < 0.5:
        facts["data"] = {**facts["data"], draw.choice([*facts["data"], "epoch"]): draw.choice(STRANGE)}
    return tensors, facts


def _survives(command: Path, *words: str | Path) -> int:
    """The status of a command that may refuse its files, in a line each, and must not fail otherwise."""
    done = subprocess.run([command, *words], capture_output=True, text=True, errors="replace")
    assert done.returncode in (0, 1, 2) and done.stderr.count("\n") <= 1, (words, done.returncode, done.stderr)
    return done.returncode


@pytest.fixture(scope="module")
def command(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sanitized")
    with pytest.MonkeyPatch.context() as patch:
        _sanitized("address,undefined", folder, patch)
        burn.manual_seed(0)
        case = CASES["classifier"]
        found = training.of(case.make(), case.inputs)
        return trainers.build("exe", found, folder / "train", options(name="net"))[0]


def _rows(folder: Path, rows: int = 37) -> Path:
    rng = np.random.default_rng(0)
    np.savez(folder / "rows.npz", x=rng.standard_normal((rows, 8)).astype(np.float32), y=rng.integers(0, 3, rows))
    return folder / "rows.npz"


def test_a_training(command: Path, tmp_path: Path) -> None:
    rows, saved = _rows(tmp_path), tmp_path / "a.safetensors"
    run(command, rows, "--batch", "16", "--epochs", "2", "--save", saved, "--every", "1")
    run(command, rows, "--batch", "16", "--epochs", "3", "--resume", saved, "--save", saved)
    run(command, "--load", saved, "--predict", rows, "-o", tmp_path / "out.npz")
    run(command, rows, rows, "--load", saved, "--drop-last", "--no-shuffle")
    run(command, "--info")


def test_damaged_checkpoints(command: Path, tmp_path: Path) -> None:
    rows, saved, changed = _rows(tmp_path), tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    run(command, rows, "--batch", "16", "--save", saved)
    good = saved.read_bytes()
    header = 8 + int.from_bytes(good[:8], "little")
    draw = random.Random(SEED)
    refused = 0
    for number in range(CASES_OF_EACH):
        changed.write_bytes(_damaged(draw, good, 0, header if draw.random() < 0.8 else len(good)))
        how = draw.choice(["--load", "--resume"])
        words = (rows, "--batch", "16", how, changed) if number % 3 else ("--load", changed, "--predict", rows)
        refused += _survives(command, *words) == 1
    assert refused > CASES_OF_EACH // 2


def test_checkpoints_of_other_trainings(command: Path, tmp_path: Path) -> None:
    rows, saved, changed = _rows(tmp_path), tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    run(command, rows, "--batch", "16", "--save", saved)
    found = checkpoints.read(saved)
    draw = random.Random(SEED)
    refused = 0
    for _ in range(CASES_OF_EACH):
        tensors, facts = _drawn_checkpoint(draw, found)
        checkpoints.write(changed, tensors, facts)
        refused += _survives(command, rows, "--batch", "16", draw.choice(["--load", "--resume"]), changed) == 1
    assert CASES_OF_EACH // 4 < refused < CASES_OF_EACH


def test_damaged_rows(command: Path, tmp_path: Path) -> None:
    rows, changed = _rows(tmp_path), tmp_path / "b.npz"
    packed = tmp_path / "packed.npz"
    with np.load(rows) as arrays:
        np.savez_compressed(packed, **dict(arrays))
    draw = random.Random(SEED)
    for number in range(CASES_OF_EACH):
        good = (rows, packed)[number % 2].read_bytes()
        changed.write_bytes(_damaged(draw, good, 0, len(good)))
        words = (
            (changed, "--batch", "16") if draw.random() < 0.7 else ("--predict", changed, "-o", tmp_path / "out.npz")
        )
        _survives(command, *words)


THREADS = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "net.h"

static net_model *shared;
static float x[40 * 8];
static int64_t y[40];

static void *work(void *argument) {
    long thread = (long)argument, wrong = 0;
    char path[64];
    snprintf(path, sizeof path, "%ld.safetensors", thread);
    for (int turn = 0; turn < 40; turn++) {
        net_model *own = NULL;
        float loss = 0, scores[40 * 3];
        int64_t batch = 2 + (thread * 7 + turn) % 38;
        if (turn % 10 == 0)
            wrong += net_create(&own, NULL) != 0;
        wrong += net_step(own ? own : shared, batch, x, y, &loss) != 0;
        wrong += net_predict(own ? own : shared, batch, x, scores) != 0;
        wrong += net_step(shared, -1, x, y, &loss) == 0 || !strlen(net_error());
        if (turn % 5 == 0)
            wrong += net_save(shared, path) != 0 || net_load(own ? own : shared, path) != 0;
        net_destroy(own);
    }
    wrong += net_load(shared, "damaged.safetensors") == 0;
    return (void *)wrong;
}

int main(void) {
    pthread_t threads[6];
    for (int i = 0; i < 40 * 8; i++)
        x[i] = (float)(i % 17) / 17;
    for (int i = 0; i < 40; i++)
        y[i] = i % 3;
    if (net_create(&shared, NULL))
        return 1;
    for (long i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    long wrong = 0;
    for (int i = 0; i < 6; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (long)result;
    }
    net_destroy(shared);
    printf("%ld wrong", wrong);
    return 0;
}
"""


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_threads(sanitizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = _sanitized(sanitizer, tmp_path, monkeypatch)
    case = CASES["classifier"]
    folder = made(case.make(), case.inputs, tmp_path / "net", "static").parent
    (folder / "threads.c").write_text(THREADS)
    (folder / "damaged.safetensors").write_bytes(b"\xff" * 100)
    command = [*compiler.split(), "threads.c", "-I.", "-L.", "-lnet", "-lpthread", "-lm", "-o", "threads"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([folder / "threads"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0 wrong"), done.stderr
