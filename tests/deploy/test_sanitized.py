"""Compiled models whose C code carries the compiler's sanitizers: good files and bad ones, threads that share and end models."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from tests.deploy.making import digits, make, refusal, run
from tests.deploy.test_command import WRONG, _images, _npy, _zipped
from tests.runtime.sanitizers import compiler_with

pytestmark = [pytest.mark.sanitized, pytest.mark.slow]  # the whole runtime is compiled anew for each


def _sanitized(sanitizer: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    compiler = compiler_with(sanitizer, folder)[0]
    command = f"{compiler} -fsanitize={sanitizer} -fno-sanitize-recover=all"
    monkeypatch.setenv("CC", command)
    monkeypatch.setenv("BURN_NUM_THREADS", "3")
    return command


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _sanitized("address,undefined", tmp_path, monkeypatch)
    command = make("exe", digits(), tmp_path / "digits", beside=True)
    for batch in (0, 1, 33):
        for method in (0, 8):
            assert len(run(command, "-", "-o", "-", stdin=_zipped(method, _npy(_images(batch))))) == batch * 40
    for content, _ in WRONG.values():
        refusal(command, "-", "-o", tmp_path / "out.npz", stdin=content)
    rng = np.random.default_rng(0)
    good = _zipped(8, _npy(_images(3)))
    for _ in range(200):
        content = bytearray(good)
        for at in rng.integers(len(content), size=2):
            content[at] = rng.integers(256)
        done = subprocess.run([command, "-", "-o", "-"], input=bytes(content), capture_output=True)
        assert done.returncode in (0, 1, 2) and done.stderr.count(b"\n") <= 1, done.stderr.decode()
    weights = tmp_path / "digits.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    refusal(command, "-", stdin=good)


THREADS = """
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "digits.h"

static digits_model *shared;
static float image[40 * 64], wanted[41][40 * 10]; /* by batch: one row alone is summed in another order */

static void *work(void *argument) {
    long thread = (long)argument, wrong = 0;
    for (int turn = 0; turn < 60; turn++) {
        float scores[40 * 10];
        int64_t batch = 1 + (thread * 7 + turn) % 40;
        digits_model *own = NULL;
        if (turn % 20 == 0)
            wrong += digits_create(&own, NULL);
        wrong += digits_run(own ? own : shared, batch, image, scores);
        wrong += memcmp(scores, wanted[batch], (size_t)batch * 40) != 0;
        digits_destroy(own);
        wrong += digits_run(shared, -1, image, scores) == 0 || !strstr(digits_error(), "negative");
    }
    return (void *)wrong;
}

int main(void) {
    pthread_t threads[8];
    for (int i = 0; i < 40 * 64; i++)
        image[i] = (float)(i % 17);
    if (digits_create(&shared, NULL))
        return 1;
    for (int64_t batch = 1; batch <= 40; batch++)
        if (digits_run(shared, batch, image, wanted[batch]))
            return 1;
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    long wrong = 0;
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (long)result;
    }
    digits_destroy(shared);
    printf("%ld wrong", wrong);
    return 0;
}
"""


@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_threads(sanitizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = _sanitized(sanitizer, tmp_path, monkeypatch)
    folder = make("static", digits(), tmp_path / "digits").parent
    (folder / "threads.c").write_text(THREADS)
    command = [*compiler.split(), "threads.c", "-I.", "-L.", "-ldigits", "-lpthread", "-lm", "-o", "threads"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([folder / "threads"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "0 wrong"), done.stderr
