"""The reference models: one table, `MODELS`, and the functions that turn a row into a file and inputs.

    path = model_path("minilm", "dynamo")
    feeds = random_inputs(MODELS["minilm"], seed=1, batch=2, seq=17)

Torch models have seeded random weights and are exported on demand into a folder outside the repository (cache.py).
`python -m tests.models [NAME ...]` writes them and prints paths, signatures and operator counts.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from functools import partial
from importlib import import_module, metadata
from itertools import product
from pathlib import Path

import numpy as np

from tests.models.cache import cached
from tests.models.case import (
    Exporter,
    ModelCase,
    OnnxFile,
    Spec,
    TorchModule,
    Unavailable,
    constant,
    integers,
    normal,
    padding_mask,
    random_inputs,
    uniform,
)
from tests.models.files import light, light_stored, seeded, trained

__all__ = [
    "MODELS",
    "ModelCase",
    "OnnxFile",
    "TorchModule",
    "Unavailable",
    "instances",
    "is_slow",
    "model_path",
    "random_inputs",
    "sizes_to_try",
]


TEXT = (
    Spec("input_ids", ("batch", "seq"), integers(30522)),
    Spec("attention_mask", ("batch", "seq"), padding_mask),
    Spec("token_type_ids", ("batch", "seq"), integers(2)),
)
TRANSFORMERS = ("torch", "onnxscript", "transformers")
ENCODED = ("last_hidden_state", "pooler_output")


def _decoder(name: str, layers: int, heads: int, width: int, vocabulary: int) -> ModelCase:
    """A GPT-2: the keys and values of the tokens before are inputs, those of all tokens so far are outputs."""
    cache = [f"{layer}.{part}" for layer in range(layers) for part in ("key", "value")]
    return ModelCase(
        name,
        TorchModule("transformer", name, ("logits", *(f"present.{entry}" for entry in cache)), TRANSFORMERS),
        (
            Spec("input_ids", ("batch", "seq"), integers(vocabulary)),
            Spec("attention_mask", ("batch", "past + seq"), constant(1, np.int64)),
            *(Spec(f"past_key_values.{entry}", ("batch", heads, "past", width)) for entry in cache),
        ),
        {"batch": 2, "seq": 3, "past": 5},
    )


_TORCH = [
    ModelCase(
        "bert_base",
        TorchModule("transformer", "bert_base", ENCODED, TRANSFORMERS),
        TEXT,
        {"batch": 2, "seq": 24},
    ),
    ModelCase(
        "minilm",
        TorchModule("transformer", "minilm", ENCODED, TRANSFORMERS),
        TEXT,
        {"batch": 2, "seq": 24},
    ),
    ModelCase(
        "vit_tiny",
        TorchModule("transformer", "vit_tiny", ("logits",), TRANSFORMERS),
        (Spec("pixel_values", ("batch", 3, 224, 224)),),
        {"batch": 2},
    ),
    _decoder("gpt2", layers=12, heads=12, width=64, vocabulary=50257),
    _decoder("gpt2_tiny", layers=2, heads=4, width=16, vocabulary=1000),
    ModelCase(
        "lstm",
        # an older one unrolls the loop over a sequence, whose length is then a number
        TorchModule("networks", "lstm", ("tags", "h", "c"), since={"dynamo": (2, 13)}),
        (Spec("x", ("batch", "seq", 64)),),
        {"batch": 2, "seq": 24},
    ),
    ModelCase(
        "mobilenet",
        TorchModule("networks", "mobilenet", ("logits",)),
        (Spec("image", ("batch", 3, "height", "width")),),
        {"batch": 2, "height": 224, "width": 192},
    ),
    ModelCase(
        "unet",
        TorchModule("networks", "unet", ("mask",)),
        (Spec("image", ("batch", 3, 128, 128)),),
        {"batch": 2},
    ),
    ModelCase(
        "efficientnet",
        TorchModule("vision", "efficientnet", ("logits",)),
        (Spec("image", (1, 3, 224, 224)),),
    ),
    ModelCase(
        "yolo",
        TorchModule("vision", "yolo", ("found",)),
        (Spec("image", (1, 3, 320, 320), uniform),),
    ),
    ModelCase(
        "whisper_tiny",
        TorchModule("transformer", "whisper_tiny", ("places",), TRANSFORMERS),
        (Spec("input_features", (1, 80, 3000)),),
    ),
    ModelCase(
        "t5_small",
        TorchModule("transformer", "t5_small", ("logits",), TRANSFORMERS),
        (
            Spec("input_ids", ("batch", "seq"), integers(32128)),
            Spec("attention_mask", ("batch", "seq"), padding_mask),
            Spec("decoder_input_ids", ("batch", "target"), integers(32128)),
        ),
        {"batch": 2, "seq": 24, "target": 11},
    ),
]

_LIGHT = {
    "bvlc_alexnet": "data_0",
    "densenet121": "data_0",
    "inception_v1": "data_0",
    "inception_v2": "data_0",
    "resnet50": "gpu_0/data_0",
    "shufflenet": "gpu_0/data_0",
    "squeezenet": "data_0",
    "vgg19": "data_0",
    "zfnet512": "gpu_0/data_0",
}

_FILES = [
    *(
        ModelCase(
            f"light_{name}",
            OnnxFile(partial(light, name), partial(light_stored, name)),
            (Spec(data, (1, 3, 224, 224), uniform),),
        )
        for name, data in _LIGHT.items()
    ),
    *(
        ModelCase(f"seeded_{name}", OnnxFile(partial(seeded, name)), (Spec(data, (1, 3, 224, 224), normal),))
        for name, data in _LIGHT.items()
    ),
    ModelCase(
        "magika",
        OnnxFile(partial(trained, "magika_v3_3")),
        (Spec("bytes", ("batch", 2048), integers(257, np.int32)),),
        {"batch": 1},
    ),
    ModelCase("mnist", OnnxFile(partial(trained, "mnist")), (Spec("input.1", (1, 1, 28, 28)),)),
    ModelCase("ultraface", OnnxFile(partial(trained, "ultraface_rfb320")), (Spec("input", (1, 3, 240, 320)),)),
    ModelCase(
        "silero_vad",
        OnnxFile(partial(trained, "silero_vad_op18_ifless")),
        (
            Spec("input", ("batch", 576)),
            Spec("sr", (), constant(16000, np.int64)),
            Spec("state", (2, "batch", 128)),
        ),
        {"batch": 1},
    ),
]

SLOW = {
    "bert_base",
    "gpt2",
    "t5_small",
    "whisper_tiny",
    "bvlc_alexnet",
    "vgg19",
    "zfnet512",
    "seeded_densenet121",
    "seeded_inception_v1",
    "seeded_inception_v2",
}
"""Models that take more than a few seconds, with or without the prefix of their family."""

BY_DYNAMO = {"minilm", "gpt2_tiny", "lstm", "mobilenet"}
"""Torch models whose export by dynamo is in the default run: an encoder, a decoder with a cache, a loop, an image of any size. It
takes 5 to 10 seconds a model; TorchScript, which exports the others there, takes less than one."""

MODELS: dict[str, ModelCase] = {case.name: case for case in [*_TORCH, *_FILES]}


def is_slow(name: str, exporter: Exporter | None = None) -> bool:
    """Is it in SLOW, with or without its family's prefix, or exported by dynamo and not in BY_DYNAMO? The light models are slow,
    too: the conformance suite compiles the same files and compares with the same stored outputs, and here are their twins with
    random weights."""
    family, _, rest = name.partition("_")
    return bool({name, rest} & SLOW) or family == "light" or (exporter == "dynamo" and name not in BY_DYNAMO)


def sizes_to_try(symbols: Collection[str]) -> list[dict[str, int]]:
    """Sizes at which to run a model with these symbols in its inputs: each batch and each length at least once.

    With the environment variable BURN_SWEEP they are each batch at each length."""
    if "past" in symbols:
        return [{"batch": b, "seq": s, "past": p} for b, s, p in ((1, 7, 0), (3, 1, 9), (2, 17, 128), (1, 1, 500))]
    if "seq" in symbols:
        batches, lengths = (1, 3, 16), (1, 17, 128, 500)
        some = ((1, 500), (3, 128), (16, 17), (3, 1))
        pairs = product(batches, lengths) if "BURN_SWEEP" in os.environ else some
        return [{"batch": batch, "seq": seq} for batch, seq in pairs]
    if "height" in symbols:
        images = ((1, 224, 224), (2, 97, 64), (3, 33, 250), (1, 32, 32))
        return [{"batch": batch, "height": height, "width": width} for batch, height, width in images]
    return [{"batch": batch} for batch in (1, 3, 16)] if "batch" in symbols else [{}]


def instances() -> list[tuple[str, Exporter | None]]:
    """Every model file there is: a torch case once an exporter, the others once."""
    pairs: list[tuple[str, Exporter | None]] = []
    for case in MODELS.values():
        exporters = case.source.exporters if isinstance(case.source, TorchModule) else (None,)
        pairs.extend((case.name, exporter) for exporter in exporters)
    return pairs


def model_path(name: str, exporter: Exporter | None = None) -> Path:
    """The ONNX file of a model, exported first if need be; the first exporter that takes a torch case is the default.

    Raises KeyError for a name that is not in the table, Unavailable where a file or a distribution is absent.
    """
    case = MODELS[name]
    source = case.source
    if isinstance(source, OnnxFile):
        return source.path()
    versions = [_version(name, distribution) for distribution in source.requires]
    torch = tuple(int(part) for part in versions[source.requires.index("torch")].split(".")[:2])
    able: list[Exporter] = [e for e in source.exporters if torch >= source.since.get(e, torch)]
    chosen: Exporter = exporter or able[0]
    if chosen not in source.exporters:
        raise Unavailable(f"the {chosen} exporter does not take {name}: {source.refused[chosen]}")
    if chosen not in able:
        since = ".".join(map(str, source.since[chosen]))
        raise Unavailable(f"the {chosen} exporter takes {name} from torch {since} on")
    code = [(Path(__file__).parent / f"{file}.py").read_text() for file in (source.file, "export")]
    made_from = (versions, [(spec.name, spec.dims) for spec in case.inputs], case.sizes, source.outputs, code)

    def write(path: Path) -> None:
        import_module("tests.models.export").export(case, chosen, path)

    return cached(f"{name}.{chosen}", made_from, write)


def _version(model: str, distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        raise Unavailable(f"{model} needs the package {distribution}") from None
