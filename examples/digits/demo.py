"""From a file made by PyTorch to a compiled classifier, with burn alone: import it, compile it, read digits with it.

    python examples/digits/demo.py

`burn-import` turns digits.onnx into Python source and weights; the source is an ordinary module that can be read,
changed and trained on. Here it is compiled as it is, asked about 360 digits that the network has never seen, and
checked against the answers that PyTorch gave.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

import numpy as np
from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel

import burn

HERE = Path(__file__).parent
SHOWN = 16
INK = 6  # of 16: a pixel this dark is drawn
BLOCKS = {(False, False): " ", (True, False): "▀", (False, True): "▄", (True, True): "█"}


def main() -> None:
    console = Console(highlight=False)
    held = np.load(HERE / "holdout.npz")
    images = held["images"].astype(np.float32)

    with tempfile.TemporaryDirectory() as scratch:
        source = import_model(HERE / "digits.onnx", Path(scratch))
        console.print(f"1. burn-import wrote model.py, {len(source.read_text().splitlines())} lines, and its weights")
        model = load_module(source).Model.from_file(source.with_name("model.safetensors"))

        start = time.perf_counter()
        classify = burn.compile(model, (images[:1],), dynamic={"image": {0: "batch"}})
        console.print(f"2. compiled in {time.perf_counter() - start:.2f} s, for any batch size")

        classify(images)  # the first run pages the code in
        start = time.perf_counter()
        logits = classify(images)
        seconds = time.perf_counter() - start

    guesses = logits.argmax(axis=1)
    accuracy = float((guesses == held["labels"]).mean())
    difference = float(np.abs(logits - held["logits"]).max() / np.abs(held["logits"]).max())
    console.print(f"3. read {len(images)} digits in {1000 * seconds:.2f} ms, {1e6 * seconds / len(images):.1f} us each")
    wrong = np.flatnonzero(guesses != held["labels"])
    shown = [*wrong, *np.flatnonzero(guesses == held["labels"])][
        :SHOWN
    ]  # the mistakes first: they are the interesting ones
    console.print(Columns([panel(images[i, 0], int(guesses[i]), int(held["labels"][i])) for i in shown]))
    console.print(f"accuracy on digits never seen: {accuracy:.2%}; largest difference from PyTorch: {difference:.0e}")
    if accuracy < 0.97 or difference > 1e-4:
        raise SystemExit("the compiled model does not do what the file's model does")


def import_model(model: Path, folder: Path) -> Path:
    """Run `burn-import`; the path of the source that it wrote."""
    subprocess.run([sys.executable, "-m", "burn.cli.import_", str(model), "-o", str(folder)], check=True)
    return folder / "model.py"


def load_module(source: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_model", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def panel(image: np.ndarray, guess: int, label: int) -> Panel:
    """An 8x8 image as four lines of half blocks, with its predicted label."""
    dark = image > INK
    lines = [
        "".join(BLOCKS[bool(top), bool(below)] for top, below in zip(*pair, strict=True))
        for pair in zip(dark[0::2], dark[1::2], strict=True)
    ]
    title = f"[green]{guess}[/green]" if guess == label else f"[red]{guess}, is {label}[/red]"
    return Panel("\n".join(lines), title=title, width=16, padding=(0, 3))


if __name__ == "__main__":
    main()
