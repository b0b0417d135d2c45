"""Models for GPUs that are not present: commands and libraries with GPU kernels, and their errors without such a
GPU. Kernels run in Triton's interpreter, behind a libcuda.so.1 that stands in for the driver; machine code is made, not run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import burn
from burn.cli.compile import main
from burn.codegen.triton import printer
from burn.compiler import executable
from burn.deploy import gpus as known
from burn.deploy.build import build
from burn.deploy.options import Options
from burn.errors import CompileError
from burn.runtime.artefact import Artefact, KernelImage, Signature, Target
from burn.toolchain import platforms
from tests.deploy.making import DIGITS, Array, digits, make, refusal, traced

pytest.importorskip("triton")
pytest.importorskip("torch")

from tests.codegen.gpu.simulated_gpu import SimulatedGPU
from tests.runtime.sanitizers import compiler_with
from tests.runtime.simulation import Elsewhere

ROOT = Path(__file__).parents[2]
HOPPER = (known.find("cuda:sm_90"),)


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    """The driver that every command started here finds; kernels are kept as they are printed."""
    driver = Elsewhere(tmp_path)
    gpu = SimulatedGPU(driver.reach)
    driver.kernel = gpu.launch
    monkeypatch.setattr(printer, "compile_all", gpu.compile_all)
    for name, value in driver.environment.items():
        monkeypatch.setenv(name, value)
    yield driver
    driver.check()
    driver.close()


def _images(batch: int) -> Array:
    return np.random.default_rng(batch).standard_normal((batch, 1, 8, 8)).astype(np.float32)


def _said(*words: object) -> str:
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(("beside", "batches"), [(False, (0, 1, 3)), (True, (2,))])
def test_a_command(elsewhere: Elsewhere, tmp_path: Path, beside: bool, batches: tuple[int, ...]) -> None:
    command = make("exe", digits(), tmp_path / "digits", gpus=HOPPER, beside=beside)
    reference = burn.load(DIGITS)
    for batch in batches:
        np.savez(tmp_path / "in.npz", image=_images(batch))
        _said(command, tmp_path / "in.npz", "-o", tmp_path / "out.npz")
        got = np.load(tmp_path / "out.npz")["logits"]
        np.testing.assert_allclose(got, reference(_images(batch)), rtol=1e-4, atol=1e-5)
    assert elsewhere.launches
    assert json.loads(_said(command, "--info"))["gpus"] == ["cuda:sm_90"]
    before = len(elsewhere.launches)
    assert "4 runs" in _said(command, "--bench", "4", "--size", "batch=1")  # the last ones from a recording
    assert (len(elsewhere.launches) - before) % 5 == 0


def mixed(x: burn.Tensor, indices: burn.Tensor) -> dict[str, burn.Tensor | tuple[burn.Tensor, ...]]:
    """Ops on the GPU and on the CPU, constants that both read, data-dependent sizes."""
    weight = burn.tensor(np.random.default_rng(1).standard_normal((12, 21), np.float32))
    return {
        "product": burn.softmax(x @ weight, -1),
        "sorted": burn.sort(x @ weight, -1) + weight[0],
        "positive": burn.nonzero(x > 0),
        "taken": x[indices],
    }


def test_a_library_from_c(elsewhere: Elsewhere, tmp_path: Path) -> None:
    """The example that is written with it, and the caller's memory, of the right size and too small, under other inputs."""
    if not (compiler := shutil.which("cc")):
        pytest.skip("there is no C compiler")
    (tmp_path / "use.c").write_text(r"""
#include <stdio.h>
#include <string.h>
#include "twice.h"
int main(void) {
    static float room[300], x[100];
    twice_model *model;
    for (int i = 0; i < 100; i++)
        x[i] = room[i + 1] = (float)i;
    if (twice_create(&model, NULL))
        return fprintf(stderr, "%s\n", twice_error()), 1;
    for (int turn = 0; turn < 4; turn++)
        if (twice_run(model, 100, x, room + 101))
            return fprintf(stderr, "%s\n", twice_error()), 1;
    if (twice_run(model, 100, room + 1, room + 1)) /* over the input */
        return fprintf(stderr, "%s\n", twice_error()), 1;
    printf("%g %g %d\n", room[100], room[200], memcmp(room + 1, room + 101, 400));
    burn_tensor in = {x, 400, BURN_FLOAT32, 1, {100}}, small = {room, 396, 0, 0, {0}}, own = {0};
    int code = twice_run_tensors(model, &in, &small);
    printf("%d %d %s\n", code, (int)small.bytes, twice_error());
    code = twice_run_tensors(model, &in, &own);
    printf("%d %g\n", code, ((float *)own.data)[99]);
    twice_free(&own);
    twice_destroy(model);
}
""")
    for kind in ("shared", "static"):
        folder = make(
            kind, traced(lambda x: x * 2 + 1, x="float32[n]"), tmp_path / kind, gpus=HOPPER, name="twice"
        ).parent
        links = [f"-I{folder}", f"-L{folder}", "-ltwice", f"-Wl,-rpath,{folder}", "-lpthread", "-lm", "-ldl"]
        for source in (folder / "main.c", tmp_path / "use.c"):
            program = tmp_path / f"{kind}_{source.stem}"
            subprocess.run([compiler, "-Wall", "-Werror", source, *links, "-o", program], check=True)
            said = _said(program)
        assert said.splitlines() == [
            "199 199 0",
            "18 400 output 'output' takes 400 bytes, and was given memory of 396",
            "0 199",
        ]
        assert "-ldl" in (folder / "twice.pc").read_text()


def test_what_is_the_hosts_and_failures(elsewhere: Elsewhere, tmp_path: Path) -> None:
    signature = {"x": "float32[n, 12]", "indices": "int64[m]"}
    command = make("exe", traced(mixed, **signature), tmp_path / "mixed", gpus=HOPPER)
    here = executable(traced(mixed, **signature))
    for n, m in ((4, 3), (17, 0)):
        rng = np.random.default_rng(n)
        feeds = {"x": rng.standard_normal((n, 12), np.float32), "indices": rng.integers(-n, n, m)}
        np.savez(tmp_path / "in.npz", **feeds)  # type: ignore[arg-type]
        _said(command, tmp_path / "in.npz", "-o", tmp_path / "out.npz")
        got = np.load(tmp_path / "out.npz")
        for name, want in here.run(feeds).items():
            np.testing.assert_allclose(got[name], want, rtol=1e-4, atol=1e-5, err_msg=name)
    np.savez(tmp_path / "in.npz", x=np.zeros((3, 12), np.float32), indices=np.array([0, 3]))
    code, said = refusal(command, tmp_path / "in.npz")
    assert code == 1 and "3" in said and "out of range" in said


def test_no_such_gpu(elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    both = (known.find("cuda:sm_80"), *HOPPER)
    command = make("exe", traced(lambda x: x + 1, x="float32[n]"), tmp_path / "more", gpus=both)
    words = (command, "--bench", "1")
    assert json.loads(_said(command, "--info"))["gpus"] == ["cuda:sm_80", "cuda:sm_90"]
    for capability, runs in ((80, True), (90, True), (75, False), (86, False), (100, False)):
        monkeypatch.setenv("BURN_SIMULATED_CAPABILITY", str(capability))
        if runs:
            _said(*words)
        else:
            found = f"was compiled for GPUs of sm_80, sm_90: cuda:0 is Simulated GPU 0, sm_{capability}"
            assert refusal(*words) == (1, f"more: more {found}")
    monkeypatch.setenv("BURN_SIMULATED_DEVICES", "0")
    assert refusal(*words) == (1, "more: more runs on a GPU, and the driver sees none")
    monkeypatch.delenv("BURN_SIMULATED_DEVICES")
    monkeypatch.setenv("BURN_SIMULATED_VERSION", "11040")
    assert "more runs on a GPU: the NVIDIA driver is too old" in refusal(*words)[1]
    (tmp_path / "libcuda.so.1").write_bytes(b"")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    assert "more runs on a GPU: there is no NVIDIA driver: " in refusal(*words)[1]


BUILD = """
import sys
from pathlib import Path
from burn.deploy import gpus
from tests.deploy.making import make, scores, traced
which = tuple(map(gpus.find, ("cuda:sm_80", "cuda:sm_90")))
make("exe", traced(scores, x="float32[n, 16]"), Path(sys.argv[1]) / "scores", gpus=which)
"""


def test_machine_code(tmp_path: Path, common_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two architectures, the same bytes by two processes without each other's caches; the driver gets the code for its GPU.
    The second process has the C runtime that another test compiled."""
    made = []
    for seed, folder in (("1", tmp_path / "here"), ("2", tmp_path / "there")):
        folder.mkdir()
        if folder.name == "there" and (common_cache / "native").exists():
            shutil.copytree(common_cache / "native", folder / "cache" / "native")
        own = {"PYTHONHASHSEED": seed, "BURN_CACHE_DIR": str(folder / "cache")}
        subprocess.run([sys.executable, "-c", BUILD, folder], check=True, cwd=ROOT, env=os.environ | own)
        made.append((folder / "scores").read_bytes())
    assert made[0] == made[1]
    assert made[0].count(b"\x7fELF") > 4  # its own, and some for each architecture
    for capability in ("80", "90"):
        monkeypatch.setenv("BURN_SIMULATED_CAPABILITY", capability)
        (tmp_path / capability).mkdir()
        driver = Elsewhere(tmp_path / capability)
        for name, value in driver.environment.items():
            monkeypatch.setenv(name, value)
        _said(tmp_path / "here" / "scores", "--bench", "1", "--size", "n=3")
        driver.check()
        driver.close()
        assert any(shared for _, shared in driver.launches)


THREADS = r"""
#include <pthread.h>
#include <stdio.h>
#include "twice.h"

static twice_model *shared;

static void *work(void *argument) {
    long thread = (long)argument, wrong = 0;
    for (int turn = 0; turn < 12; turn++) {
        float x[100], y[100];
        int64_t n = 1 + (thread * 7 + turn / 3) % 100; /* thrice in a row: run, recorded, replayed */
        twice_model *own = NULL;
        for (int i = 0; i < n; i++)
            x[i] = (float)(thread * 1000 + turn + i);
        if (turn % 6 == 0)
            wrong += twice_create(&own, NULL) != 0;
        wrong += twice_run(own ? own : shared, n, x, y) != 0;
        for (int i = 0; i < n; i++)
            wrong += y[i] != x[i] * 2 + 1;
        twice_destroy(own);
        wrong += twice_run(shared, -1, x, y) == 0;
    }
    return (void *)wrong;
}

int main(void) {
    pthread_t threads[8];
    long wrong = 0;
    if (twice_create(&shared, NULL))
        return fprintf(stderr, "%s\n", twice_error()), 1;
    for (long i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (int i = 0; i < 8; i++) {
        void *result;
        pthread_join(threads[i], &result);
        wrong += (long)result;
    }
    twice_destroy(shared);
    printf("%ld wrong", wrong);
    return 0;
}
"""


@pytest.mark.sanitized
@pytest.mark.slow  # the whole runtime is compiled anew for each
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_threads(sanitizer: str, elsewhere: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight threads, one model and some of their own, with the compiler's sanitizers."""
    compiler = f"{compiler_with(sanitizer, tmp_path)[0]} -fsanitize={sanitizer} -fno-sanitize-recover=all"
    monkeypatch.setenv("CC", compiler)
    folder = make(
        "static", traced(lambda x: x * 2 + 1, x="float32[n]"), tmp_path / "lib", gpus=HOPPER, name="twice"
    ).parent
    (folder / "threads.c").write_text(THREADS)
    command = [*compiler.split(), "threads.c", "-I.", "-L.", "-ltwice", "-lpthread", "-lm", "-ldl", "-o", "threads"]
    subprocess.run(command, cwd=folder, check=True)
    assert _said(folder / "threads") == "0 wrong"


@pytest.mark.slow  # a target's C library is first built
def test_beside_another_cpu(elsewhere: Elsewhere, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    for kind in ("exe", "shared", "static"):
        arm = Options(platforms.find("aarch64-linux"), gpus=HOPPER)
        assert build(kind, digits(), tmp_path / kind, arm)[0].stat().st_size


# ---- the command line, and what is refused ---------------------------------------------------------------------------


def test_gpus_among_the_targets(tmp_path: Path, elsewhere: Elsewhere) -> None:
    """In any order, with the platform or without; repeated or between commas."""
    words = ["--target", "cuda:sm_90,x86_64-linux", "--target", "cuda:sm_80", "--cpu", "avx2,generic"]
    done = CliRunner().invoke(main, [str(DIGITS), *words, "-o", str(tmp_path / "digits")])
    assert done.exit_code == 0, done.output
    assert json.loads(_said(tmp_path / "digits", "--info"))["gpus"] == ["cuda:sm_90", "cuda:sm_80"]
    done = CliRunner().invoke(main, [str(DIGITS), "--target", "cuda:sm_90", "-o", str(tmp_path / "digits.o")])
    assert (
        done.exit_code == 2
        and "cuda:sm_90 is a target for commands, libraries and packages, not for object" in done.output
    )


def test_names_that_are_no_gpu(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="did you mean 'cuda:sm_90'"):
        known.find("cuda:sm90")
    with pytest.raises(
        CompileError, match=r"x86_64-linux-musl do not load a GPU driver(.|\n)*x86_64-linux, aarch64-linux do"
    ):
        build("exe", digits(), tmp_path / "digits", Options(platforms.find("x86_64-linux-musl"), gpus=HOPPER))


def test_kernels_that_do_not_fit() -> None:
    program = Artefact(Signature((), ()), Target(""), b"", images=(KernelImage("big", b"", 100 << 10, 32),))
    known.find("cuda:sm_90").check(program)
    with pytest.raises(CompileError, match=r"does not fit cuda:sm_86(.|\n)*big takes 102400 bytes"):
        known.find("cuda:sm_86").check(program)


def test_equal_kernels_are_there_once() -> None:
    one, other = (KernelImage(name, name.encode() * 65, 0, 32) for name in "ab")
    programs = [Artefact(Signature((), ()), Target(""), b"", images=listed) for listed in ((one, other), (other, one))]
    made = known.images(programs)
    assert made.offsets == [[0, 128], [128, 0]]
    assert b"".join(made.pieces) == b"a" * 65 + bytes(63) + b"b" * 65 + bytes(63)
