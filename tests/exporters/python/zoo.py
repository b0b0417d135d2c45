"""Small models whose generated sources are kept as golden files: what people export, with few and narrow layers.

Each row of `ZOO` makes a program. Weights are random but for their seed: a source only has their names and shapes. Graphs come
from PyTorch's exporters, from ONNX Runtime's quantiser, and from files.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from burn.dialect.program import Program
from burn.importers.onnx import import_onnx
from tests.models import Unavailable
from tests.models.files import trained

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
Dynamic = Mapping[str, Mapping[int, str]]


@dataclass(frozen=True)
class Golden:
    """One model. `layers`: how many layers its author would count, those of one list apart. `package`: whose release decides
    what the source is. `is_measured`: numbers come from a calibration, whose last digit depends on the CPU."""

    name: str
    program: Callable[[], Program]
    layers: int
    package: str = ""
    is_measured: bool = False


def _exported(
    build: Callable[[], Any], inputs: Callable[[], Mapping[str, Any]], dynamic: Dynamic, outputs: Sequence[str]
) -> onnx.ModelProto:
    """A torch module as ONNX, by the exporter that works without further packages."""
    import torch

    torch.manual_seed(0)
    module = build().eval()
    example = dict(inputs())
    with torch.no_grad(), warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            module, tuple(example.values()), str(path), dynamo=False, input_names=list(example),
            output_names=list(outputs), dynamic_axes={k: dict(v) for k, v in dynamic.items()}, opset_version=17,
        )  # fmt: skip
        return onnx.load(path)


def _torch(name: str, layers: int, inputs: Callable[[], Mapping[str, Any]], dynamic: Dynamic, **options: Any) -> Golden:
    build = options.get("build") or partial(_network, options["network"])
    outputs = options.get("outputs", ("output",))
    return Golden(
        name, lambda: import_onnx(_needing(partial(_exported, build, inputs, dynamic, outputs), "torch")), layers
    )


def _needing(make: Callable[[], Any], *packages: str) -> Any:
    for package in packages:
        if find_spec(package) is None:
            raise Unavailable(f"needs the package {package}")
    return make()


def _network(name: str) -> Any:
    from tests.exporters.python import networks
    from tests.models import networks as common

    return common.randomise(getattr(networks, name)() if hasattr(networks, name) else getattr(common, name)())


def _named(config: str, model: str, field: str, names: Sequence[str], **sizes: Any) -> Any:
    """A model of the transformers library with a small configuration."""
    import transformers

    from tests.exporters.python.networks import Named

    logging.getLogger("transformers").setLevel(logging.ERROR)
    return Named(getattr(transformers, model)(getattr(transformers, config)(**sizes)), field, tuple(names))


def _transformer(
    name: str, layers: int, given: tuple[str, str, str], inputs: Any, dynamic: Dynamic, **sizes: Any
) -> Golden:
    build = partial(_named, *given, tuple(inputs()) if find_spec("torch") else (), **sizes)
    made = _torch(name, layers, inputs, dynamic, build=lambda: _needing(build, "transformers"), outputs=(given[2],))
    return replace(made, package="transformers")


def _normal(*shape: int, name: str = "image") -> Callable[[], Mapping[str, Any]]:
    def make() -> Mapping[str, Any]:
        import torch

        return {name: torch.randn(*shape)}

    return make


def _tokens(*names: str, length: int = 7) -> Callable[[], Mapping[str, Any]]:
    def make() -> Mapping[str, Any]:
        import torch

        return {name: torch.ones(2, length, dtype=torch.int64) for name in names}

    return make


def _cell() -> Mapping[str, Any]:
    import torch

    return {"x": torch.randn(2, 3, 6), "h": torch.randn(2, 8), "c": torch.randn(2, 8)}


def _quantised(network: str, shape: tuple[int, ...], name: str, form: str) -> Program:
    """ONNX Runtime's quantiser on a network: `QDQ`, `QOperator`, or `dynamic`."""
    from onnxruntime import quantization as q

    logging.getLogger().setLevel(logging.ERROR)
    generator = np.random.default_rng(0)
    samples = iter([{name: generator.standard_normal(shape).astype(np.float32)}])

    class Reader(q.CalibrationDataReader):
        def get_next(self) -> Any:
            return next(samples, None)

    model = _exported(partial(_network, network), _normal(*shape, name=name), {name: {0: "batch"}}, ("output",))
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain, made = Path(folder) / "plain.onnx", Path(folder) / "quantised.onnx"
        onnx.save(model, plain)
        if form == "dynamic":
            q.quantize_dynamic(plain, made)
        else:
            q.quantize_static(plain, made, Reader(), quant_format=q.QuantFormat[form], per_channel=form == "QDQ")
        return import_onnx(onnx.load(made))


def _quantised_row(name: str, layers: int, *arguments: Any) -> Golden:
    program = partial(_needing, partial(_quantised, *arguments), "torch", "onnxruntime")
    return Golden(name, program, layers, is_measured=arguments[-1] != "dynamic")


SEQUENCE = {0: "batch", 1: "length"}
TEXT = ("input_ids", "attention_mask")
SMALL = {"hidden_size": 48, "num_hidden_layers": 3, "num_attention_heads": 3, "intermediate_size": 96}
WORDS = {"vocab_size": 101, "max_position_embeddings": 64}

ZOO = (
    _transformer(
        "bert", 12, ("BertConfig", "BertModel", "last_hidden_state"), _tokens(*TEXT, "token_type_ids"),
        dict.fromkeys((*TEXT, "token_type_ids"), SEQUENCE), **SMALL, **WORDS,
    ),
    _transformer(
        "llama", 12, ("LlamaConfig", "LlamaForCausalLM", "logits"), _tokens(*TEXT), dict.fromkeys(TEXT, SEQUENCE),
        **SMALL | {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2}, **WORDS,
    ),
    _transformer(
        "vit", 12, ("ViTConfig", "ViTForImageClassification", "logits"), _normal(2, 3, 32, 32, name="pixel_values"),
        {"pixel_values": {0: "batch"}}, **SMALL, image_size=32, patch_size=8,
    ),
    _transformer(
        "t5", 22, ("T5Config", "T5ForConditionalGeneration", "logits"), _tokens(*TEXT, "decoder_input_ids"),
        {**dict.fromkeys(TEXT, SEQUENCE), "decoder_input_ids": {0: "batch", 1: "target"}},
        d_model=48, d_kv=16, d_ff=96, num_layers=2, num_heads=3, vocab_size=101,
    ),
    _torch("gpt", 12, _tokens("tokens"), {"tokens": SEQUENCE}, network="Decoder", outputs=("logits",)),
    _torch("cell", 3, _cell, {name: {0: "batch"} for name in "xhc"}, network="Cell", outputs=("output", "hidden", "memory")),
    _torch("lstm", 3, _normal(2, 9, 64, name="x"), {"x": SEQUENCE}, network="lstm", outputs=("tags", "h", "c")),
    _torch("perceptron", 3, _normal(2, 16, name="x"), {"x": {0: "batch"}}, network="Perceptron"),
    _torch("classifier", 4, _normal(2, 3, 32, 32), {"image": {0: "batch"}}, network="Classifier"),
    _torch("detector", 14, _normal(1, 3, 64, 64, name="images"), {"images": {0: "batch"}}, network="Detector"),
    _torch("unet", 12, _normal(2, 3, 32, 32), {"image": {0: "batch"}}, network="unet", outputs=("mask",)),
    _torch(
        "mobilenet", 14, _normal(2, 3, 64, 64), {"image": {0: "batch", 2: "height", 3: "width"}}, network="mobilenet",
        outputs=("logits",),
    ),
    _torch(
        "resnet", 10, _normal(2, 3, 64, 64), {"image": {0: "batch"}},
        build=lambda: __import__("tests.models.torch_models", fromlist=["_"]).ResNet((2, 2, 2), 8, 11),
    ),
    _quantised_row("classifier_qdq", 4, "Classifier", (2, 3, 32, 32), "image", "QDQ"),
    _quantised_row("classifier_qlinear", 4, "Classifier", (2, 3, 32, 32), "image", "QOperator"),
    _quantised_row("perceptron_dynamic", 3, "Perceptron", (2, 16), "x", "dynamic"),
    Golden("digits", lambda: import_onnx(DIGITS), 10),
    *(
        Golden(name, partial(lambda file: import_onnx(trained(file)), file), layers)
        for name, file, layers in (
            ("mnist", "mnist", 7), ("magika", "magika_v3_3", 7), ("silero_vad", "silero_vad_op18_ifless", 16),
            ("ultraface", "ultraface_rfb320", 60),
        )
    ),
)  # fmt: skip
"""Golden files are in golden/, one for each row."""
