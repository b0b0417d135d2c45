"""The engines that can be timed, each behind the same two methods. A row in `PEERS` is all that a new one takes.

Each gets the number of threads, float32 arithmetic by default, and otherwise its own best settings for latency. Options that
trade accuracy are turned off, so that all compute the same: OpenVINO's default on CPUs with bfloat16 instructions is bfloat16.
In half precision OpenVINO gets that hint, and torch runs under autocast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import metadata, util
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from burn.bench.subject import Feeds, Subject
from burn.runtime.device import device

AUTOCAST = ("torch", "torch.compile")
"""Engines besides burn with GPUs and half precision."""

Run = Callable[[Feeds], Feeds]


@dataclass(frozen=True)
class Where:
    """The device, "cpu" or a GPU, the precision of matmuls ("fp32", "bf16" or "fp16"), and burn's autotuning."""

    device: str = "cpu"
    precision: str = "fp32"
    autotune: str | None = None

    @property
    def is_host(self) -> bool:
        """True if programs compute in host memory."""
        return device(self.device).memory.is_host

    @property
    def is_plain(self) -> bool:
        """True for a CPU in fp32, which every engine supports."""
        return self.is_host and self.precision == "fp32"


HOST = Where()


class Sent:
    """Inputs that were brought somewhere, each of them once."""

    def __init__(self, bring: Callable[[np.ndarray], Any]) -> None:
        self.bring = bring
        self.known: dict[int, tuple[np.ndarray, Any]] = {}

    def __call__(self, feeds: Feeds) -> dict[str, Any]:
        for array in feeds.values():
            if id(array) not in self.known:
                self.known[id(array)] = (array, self.bring(array))
        return {name: self.known[id(array)][1] for name, array in feeds.items()}


class Peer(Protocol):
    """One engine."""

    name: str
    distribution: str  # what to install to have it

    def load(self, subject: Subject, threads: int, cache: Path | None, where: Where = HOST) -> Run:
        """Prepares the model; returns a function that computes one inference. Inputs are copied to a GPU once. `cache` is a
        folder for compiled models."""
        ...

    def lacks(self, subject: Subject, where: Where = HOST) -> str:
        """Why this peer cannot take the subject, or "" where it can."""
        ...


class FilePeer:
    """A peer that reads the ONNX file."""

    name = ""
    distribution = ""

    def lacks(self, subject: Subject, where: Where = HOST) -> str:
        return "it is timed on the CPU in fp32 only" if not where.is_plain else _not_installed(self.distribution)


class Burn(FilePeer):
    name = "burn"
    distribution = "burn-mlir"

    def lacks(self, subject: Subject, where: Where = HOST) -> str:
        return ""

    def load(self, subject: Subject, threads: int, cache: Path | None, where: Where = HOST) -> Run:
        import burn

        options: dict[str, Any] = asdict(where)
        run = burn.load(subject.path, threads=threads, **options).run
        if where.is_host:
            return run
        from burn.runtime.device_array import to_device

        sent = Sent(lambda array: to_device(array, where.device))
        return lambda feeds: {name: np.asarray(array.numpy()) for name, array in run(sent(feeds)).items()}


class OnnxRuntime(FilePeer):
    name = "onnxruntime"
    distribution = "onnxruntime"

    def load(self, subject: Subject, threads: int, cache: Path | None, where: Where = HOST) -> Run:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(subject.path), options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]

        def run(feeds: Feeds) -> Feeds:
            outputs: Any = session.run(names, feeds)
            return dict(zip(names, outputs, strict=True))

        return run


class OpenVino(FilePeer):
    name = "openvino"
    distribution = "openvino"

    def lacks(self, subject: Subject, where: Where = HOST) -> str:
        return "it is timed on the CPU only" if not where.is_host else _not_installed(self.distribution)

    def load(self, subject: Subject, threads: int, cache: Path | None, where: Where = HOST) -> Run:
        import openvino

        core = openvino.Core()
        settings: dict[str, Any] = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": {"fp32": "f32", "bf16": "bf16", "fp16": "f16"}[where.precision],
        }
        if cache is not None:
            settings["CACHE_DIR"] = str(cache)
        request = core.compile_model(str(subject.path), "CPU", settings).create_infer_request()

        def run(feeds: Feeds) -> Feeds:
            result = request.infer(feeds, share_inputs=True, share_outputs=True)
            return {key.any_name: np.asarray(value) for key, value in result.items()}

        return run


class TorchPeer:
    """The torch module that the file was exported from, called with torch's tensors: by torch itself, or compiled by
    `prepare`, which gets the module and example inputs."""

    distribution = "torch"

    def __init__(self, name: str, prepare: Callable[[Any, tuple[Any, ...]], Any]) -> None:
        self.name = name
        self.prepare = prepare

    def lacks(self, subject: Subject, where: Where = HOST) -> str:
        if subject.module is None:
            return "the model has no torch module"
        if not where.is_plain and self.name not in AUTOCAST:
            return "it is timed on the CPU in fp32 only"
        return _not_installed(self.distribution)

    def load(self, subject: Subject, threads: int, cache: Path | None, where: Where = HOST) -> Run:
        import torch

        assert subject.module is not None
        torch.set_num_threads(threads)
        torch.set_float32_matmul_precision("high" if where.precision == "tf32" else "highest")
        half = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(where.precision)
        sent = Sent(lambda array: torch.from_numpy(array).to(where.device))
        with torch.inference_mode():
            module = subject.module()
            module = module if where.is_host else module.to(where.device)
            function = self.prepare(module, tuple(sent(subject.feeds).values()))

        def run(feeds: Feeds) -> Feeds:
            kind = where.device.partition(":")[0]
            with torch.inference_mode(), torch.autocast(kind, half, enabled=half is not None):
                result = function(*sent(feeds).values())
            results = result if isinstance(result, tuple) else (result,)
            results = (t.float() if t.dtype is half else t for t in results)
            return {str(index): tensor.cpu().numpy() for index, tensor in enumerate(results)}

        return run


def _compiled(module: Any, example: tuple[Any, ...]) -> Any:
    import torch
    from torch._inductor import config

    torch._dynamo.reset()  # the ninth module of one class is not compiled any more, but for this
    config.freezing = True  # weights are constants, as they are for every other peer
    return torch.compile(module)


def _by_burn(module: Any, example: tuple[Any, ...]) -> Any:
    import burn

    return burn.compile(module, example)


def _backend_burn(module: Any, example: tuple[Any, ...]) -> Any:
    import torch

    return torch.compile(
        module, backend="burn", options={"freeze": True}
    )  # weights as constants, as in burn's other runs


def _not_installed(distribution: str) -> str:
    return "" if util.find_spec(distribution) else f"the package {distribution} is not installed"


PEERS: dict[str, Peer] = {
    peer.name: peer
    for peer in (
        Burn(),
        OnnxRuntime(),
        OpenVino(),
        TorchPeer("torch", lambda module, example: module),
        TorchPeer("torch.compile", _compiled),
        TorchPeer("burn.compile", _by_burn),
        TorchPeer("torch.compile/burn", _backend_burn),
    )
}


def version(peer: Peer) -> str:
    try:
        return metadata.version(peer.distribution)
    except metadata.PackageNotFoundError:
        return "unknown"
