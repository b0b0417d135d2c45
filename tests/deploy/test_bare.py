"""Models without an operating system: a library for a Cortex-M4, run on a board that qemu makes up."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import burn
from burn.deploy.build import build
from burn.deploy.options import Options
from burn.deploy.report import Report, footprint
from burn.errors import CompileError
from burn.exporting import program_of
from burn.loading import read_program
from burn.toolchain import platforms
from tests.deploy.making import DIGITS, traced

pytest.importorskip("ziglang")
BOARD = Path(__file__).parents[2] / "examples" / "cortex-m4"
M4 = "thumbv7em-none-eabihf"


def on_the_board(folder: Path, main: str) -> str:
    """Links a main program with the library in a folder, and nothing else; gives what it prints."""
    (folder / "main.c").write_text(main)
    flags = ["-target", "thumb-freestanding-eabihf", "-mcpu=cortex_m4", "-O2", "-nostdlib", "-ffreestanding"]
    files = [str(folder / "main.c"), str(BOARD / "start.c"), *map(str, folder.glob("*.a"))]
    linking = [f"-I{BOARD}", "-T", str(BOARD / "link.ld"), "-Wl,--gc-sections", "-o", str(folder / "board.elf")]
    subprocess.run([sys.executable, "-m", "ziglang", "cc", *flags, *files, *linking], check=True, capture_output=True)
    if shutil.which("qemu-system-arm") is None:
        pytest.skip("qemu-system-arm is not here")
    machine = ["qemu-system-arm", "-machine", "mps2-an386", "-nographic", "-semihosting", "-kernel"]
    done = subprocess.run([*machine, str(folder / "board.elf")], capture_output=True, text=True, timeout=300)
    return done.stdout + done.stderr


def test_digits(tmp_path: Path) -> None:
    image = np.random.default_rng(0).standard_normal((1, 1, 8, 8)).astype(np.float32)
    costs: list[Report] = []
    options = Options(platforms.find(M4), told=costs.append)
    made = build("static", read_program(DIGITS, {"batch": 1}), tmp_path / "digits", options)
    assert [path.name for path in made] == ["libdigits.a", "digits.h"]
    arena = int(re.search(r"DIGITS_ARENA_BYTES (\d+)", made[1].read_text())[1])  # type: ignore[index]
    assert 1000 < arena < 100_000
    bits = ", ".join(map(str, image.ravel().view(np.uint32)))
    printed = on_the_board(
        tmp_path / "digits",
        f"""#include "digits.h"
#include "semihosting.h"
static const uint32_t image[DIGITS_IMAGE_COUNT] = {{{bits}}};
static unsigned char arena[DIGITS_ARENA_BYTES + 64] __attribute__((aligned(DIGITS_ARENA_ALIGNMENT)));
static union {{ float logits[DIGITS_LOGITS_COUNT]; int32_t bits[DIGITS_LOGITS_COUNT]; }} out;
static void tell(int32_t number) {{ print_number(number); print("\\n"); }}
int main(void) {{
    int changed = 0;
    for (int i = 0; i < (int)sizeof arena; i++)
        arena[i] = 0xA5;
    for (int turn = 0; turn < 2; turn++) {{
        tell(digits_run(arena, DIGITS_ARENA_BYTES, (const float *)image, out.logits));
        for (int i = 0; i < DIGITS_LOGITS_COUNT; i++)
            tell(out.bits[i]);
    }}
    for (int i = DIGITS_ARENA_BYTES; i < (int)sizeof arena; i++)
        changed += arena[i] != 0xA5;
    tell(changed);
    tell(digits_run(0, DIGITS_ARENA_BYTES, (const float *)image, out.logits));
    tell(digits_run(arena, DIGITS_ARENA_BYTES - 1, (const float *)image, out.logits));
    tell(digits_run(arena + 4, DIGITS_ARENA_BYTES, (const float *)image, out.logits));
    tell(digits_run(arena, sizeof arena, (const float *)image, 0));
    tell(digits_run(arena, sizeof arena, 0, out.logits));
    leave();
}}
""",
    )
    told = list(map(int, printed.split()))
    want = burn.load(DIGITS)(image)
    for turn in (told[:11], told[11:22]):
        assert turn[0] == 0
        np.testing.assert_allclose(np.array(turn[1:], np.int32).view(np.float32), want[0], rtol=1e-5, atol=1e-5)
    assert told[22:] == [0, 1, 1, 1, 1, 10]
    whole = footprint(tmp_path / "digits" / "board.elf", 0)  # with the main program, an image and a vector table
    assert costs[0].footprint is not None
    assert 0 < whole.flash - costs[0].footprint.flash < 4096
    assert costs[0].footprint.ram == arena + 4 * (64 + 10)
    assert costs[0].multiply_adds == 460_416
    assert costs[0].layers[1].multiply_adds == 8 * 8 * 9 * 16
    assert on_the_board(tmp_path / "digits", (BOARD / "main.c").read_text()) == "it is a 7\n"


@pytest.mark.slow  # qemu takes ten seconds for the steps
def test_the_last_layer_adapts(tmp_path: Path) -> None:
    """The example: steps on mirrored digits, whose numbers are those of the same steps on this machine."""
    spec = importlib.util.spec_from_file_location("adapt", BOARD / "adapt.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    folder = tmp_path / "adapt"
    build("static", program_of(module.Adapt()), folder, Options(platforms.find(M4)))
    (folder / "rows.h").write_text("\n".join(module.header()))
    printed = on_the_board(folder, (BOARD / "adapt.c").read_text()).split("\n")
    right = [int(line.split(" of ")[0]) for line in printed if " of " in line]

    step = burn.compile(module.Adapt())
    state = module.trained()
    layer = [state["output.weight"], state["output.bias"]]
    with np.load(module.DIGITS / "holdout.npz") as found:
        images = found["images"][..., ::-1].astype(np.float32)[:, None]
        labels = found["labels"].astype(np.int64)[:, None]

    def reads(number: int) -> bool:
        return int(step(images[number], labels[number], *layer)[0].argmax()) == int(labels[number, 0])

    wanted = [sum(map(reads, range(module.TRAINED, len(labels))))]
    for _ in range(2):
        for number in range(module.TRAINED):
            _, *layer = step(images[number], labels[number], *layer)
        wanted.append(sum(map(reads, range(module.TRAINED, len(labels)))))
    np.testing.assert_allclose(right, wanted, atol=2)  # expf and order of sums differ in the last bits
    assert right[0] < 50 and right[-1] > 75


def test_names_of_the_functions_own(tmp_path: Path) -> None:
    """Inputs and outputs that are called as what the library's code calls its own."""
    names = ("arena", "arena_bytes", "program", "inputs", "in")
    program = traced(lambda **x: {"out": sum(x.values(), start=burn.tensor(1.0))}, **dict.fromkeys(names, "float32[3]"))
    made = build("static", program, tmp_path / "own", Options(platforms.find(M4)))
    assert "void *arena, size_t arena_bytes, const float *arena_1, const float *arena_bytes_1, " in made[1].read_text()


def test_what_needs_a_system_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"image: float32\[batch, 1, 8, 8\] has sizes that a call chooses.*--dim"):
        build("static", read_program(DIGITS), tmp_path / "digits", Options(platforms.find(M4)))
    program = traced(lambda x: burn.nonzero(x), x="float32[4]")
    with pytest.raises(CompileError, match="the program needs burn_lib_nonzero"):
        build("static", program, tmp_path / "places", Options(platforms.find(M4)))
    with pytest.raises(CompileError, match="there are no executables on thumbv7em-none-eabihf"):
        build("exe", read_program(DIGITS, {"batch": 1}), tmp_path / "digits", Options(platforms.find(M4)))
