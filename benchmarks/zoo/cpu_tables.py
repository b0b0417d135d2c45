"""The page of benchmarks/cpu_zoo.py: a table for each setting, from rows of results. Enter at `write`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from zoo.pages import HEADING, Row, by_setting, kernel_cells, markdown, mean, rows_of, sections_of, short, written_by

PEERS = ("burn", "onnxruntime", "openvino", "torch.compile")
TRAINERS = ("burn", "torch", "torch.compile")

WANTED = 1.25
"""The ratio of training steps below which the page counts a model."""

HOW_STEPS_AGREE = (
    "A step is a forward pass, a backward pass of the mean square of the result, and AdamW, without dropout. Gradients are "
    "compared with float64: burn's error is at most four times torch's, or 1e-4. Losses and running statistics of three steps "
    "agree with torch's to 1e-3, and parameters to a fifth of the distance that they moved. If torch.compile differs by more "
    "than a quarter of such a bound, the bound is four times its difference. This second bound was added after googlenet and "
    "inception_next_atto had failed the first one, both in burn and in torch.compile. Kernels are timed by the wall clock: on a "
    "busy machine their shares are rough, and can be above 100 %."
)

KEYS = ("machine", "threads", "batch", "int8", "cpu", "training")


def ratio(row: Row) -> float | None:
    """burn's time over the fastest peer's; of training steps the better peer's over burn's, if the results agree."""
    seconds = dict(row.get("seconds", {}))
    own = seconds.pop("burn", None)
    if not own or not seconds or row.get("wrong"):
        return None
    found = own / min(seconds.values())
    return 1 / found if row.get("training") else found


def loss(row: Row) -> float:
    """burn's time over the fastest peer's, 0 if there is none: rows stand in its order."""
    found = ratio(row) or 0.0
    return 1 / found if found and row.get("training") else found


def table(rows: Sequence[Row]) -> Iterator[str]:
    training = bool(rows[0].get("training"))
    peers = [peer for peer in (TRAINERS if training else PEERS) if any(peer in row["seconds"] for row in rows)]
    names = ["model", *(f"{peer} ms" for peer in peers), "ratio", "of the roofline", "worst kernel"]
    names += ["gradients' error, burn / torch"] if training else [f"{peer} MB" for peer in peers]
    return markdown(names, (_cells(row, peers) for row in sorted(rows, key=loss, reverse=True)))


def _cells(row: Row, peers: Sequence[str]) -> list[str]:
    seconds, peaks = row["seconds"], row.get("peaks", {})
    times = [f"{1e3 * seconds[peer]:.3f}" if peer in seconds else "" for peer in peers]
    last = [f"{peaks[peer] / 1e6:.0f}" if peer in peaks else "" for peer in peers]
    if row.get("training"):
        last = [" / ".join(f"{row['errors'][engine]['gradients']:.0e}" for engine in ("burn", "torch"))]
    return [f"{row['list']} {row['name']}", *times, f"{ratio(row) or 0:.2f}", *kernel_cells(row), *last]


def write(results: Path, output: Path) -> None:
    """Write the page. Its sections of settings without rows in the results stay as they are."""
    first = [
        "# Models drawn from packages' lists, on a CPU",
        f"{written_by('cpu_zoo.py')}. Random weights. Ratio: burn's time over the fastest peer's, for training steps the "
        "better peer's time over burn's. MB: the most memory of a process that loads a model and runs it once. The script says "
        "how names are drawn and how engines are timed.",
    ]
    made = dict(section(key, mine) for key, mine in by_setting(rows_of(results), KEYS).items())
    before = sections_of(output.read_text()) if output.exists() else {}
    output.write_text("\n\n".join([*first, *(before | made).values()]) + "\n")


def section(key: tuple[Any, ...], mine: Sequence[Row]) -> tuple[str, str]:
    """The heading and the text of a setting's section."""
    on, threads, batch, int8, cpu, training = key
    with_ratio = [row for row in mine if ratio(row) is not None]
    ratios = [ratio(row) or 0.0 for row in with_ratio]
    kind = "training steps, " * bool(training) + (f"int8, {int8}" if int8 else "float32") + ", CPU seconds" * bool(cpu)
    heading = f"{on}: {threads} thread{'s' * (threads > 1)}, batch {batch}, {kind}"
    if training:
        below = sum(found < WANTED for found in ratios)
        more = f"{below} below {WANTED}. {HOW_STEPS_AGREE}"
    else:
        more = f"{sum(found > 1 for found in ratios)} above 1. {sum(map(_takes_more, with_ratio))} take more memory than in "
        more += "ONNX Runtime."
    lines = [f"{HEADING}{heading}", f"{len(ratios)} models: geometric mean {mean(ratios):.2f}, {more}"]
    lines += ["\n".join(table(with_ratio))] if with_ratio else []
    failed = [
        f"- {row['list']} {row['name']}: {peer}: {short(why)}"
        for row in with_ratio
        for peer, why in row.get("failed", {}).items()
    ]
    absent = [f"- {row['list']} {row['name']}: {reason(row)}" for row in mine if ratio(row) is None]
    lines += ["Without a ratio:\n\n" + "\n".join(absent)] if absent else []
    lines += ["Engines that did not run a model:\n\n" + "\n".join(failed)] if failed else []
    return heading, "\n\n".join(lines)


def _takes_more(row: Row) -> bool:
    peaks = row.get("peaks", {})
    return "onnxruntime" in peaks and peaks.get("burn", 0) > peaks["onnxruntime"]


def reason(row: Row) -> str:
    return short(
        row.get("error")
        or "; ".join(row.get("wrong", []))
        or "; ".join(f"{name}: {why}" for name, why in row.get("failed", {}).items())
        or "no peer"
    )
