"""The names `burn-bench` knows in a checkout: those of tests/models, with the sizes that they are usually timed at."""

from __future__ import annotations

from collections.abc import Mapping

from burn.bench.subject import Subject
from burn.errors import BurnError
from tests.models import MODELS, TorchModule, Unavailable, model_path, random_inputs

# A dynamic model is timed at one sentence, one image or one decoding step unless sizes are given.
SIZES: dict[str, dict[str, int]] = {
    "bert_base": {"batch": 1, "seq": 128},
    "minilm": {"batch": 1, "seq": 128},
    "vit_tiny": {"batch": 1},
    "gpt2": {"batch": 1, "seq": 1, "past": 128},
    "gpt2_tiny": {"batch": 1, "seq": 1, "past": 128},
    "lstm": {"batch": 1, "seq": 128},
    "mobilenet": {"batch": 1, "height": 224, "width": 224},
    "unet": {"batch": 1},
    "t5_small": {"batch": 1, "seq": 64, "target": 32},
}


def subject(name: str, sizes: Mapping[str, int]) -> Subject:
    """The subject called `name`, or `name.EXPORTER` for a torch model's other file."""
    stem, _, exporter = name.partition(".")
    case = MODELS.get(stem)
    if case is None or (exporter and not (isinstance(case.source, TorchModule) and exporter in case.source.exporters)):
        raise BurnError(f"no model '{name}'", [f"the names are {', '.join(MODELS)}; it is no file either"])
    chosen = {
        **case.sizes,
        **SIZES.get(stem, {}),
        **{symbol: sizes[symbol] for symbol in sizes if symbol in case.sizes},
    }
    try:
        path = model_path(stem, exporter or None)  # type: ignore[arg-type]
    except Unavailable as reason:
        raise BurnError(f"the model '{name}' is not here", [str(reason)]) from None
    module = case.source.build if isinstance(case.source, TorchModule) else None
    return Subject(name, path, random_inputs(case, **chosen), chosen, module)
