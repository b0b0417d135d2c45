"""Changes to the weights of a model by path: low-rank adapters (LoRA), and weights computed from other parameters.

    nn.adapt.lora(model, r"query|value", rank=8)             # freezes the rest of the model
    burn.train.step(model, loss, optim.AdamW(model))          # trains the adapters alone
    nn.adapt.save(model, "adapter")                           # the folder format of peft
    nn.adapt.merge(model)                                     # for inference and export

`lora` adapts layers, also those with int4 and int8 weights (QLoRA), and the weights of imported models (`nn.Graph`).
`weight_norm` and `spectral_norm` replace parameters by normalised ones; `bake` makes parameters of these again.
"""

from burn.nn.adapt.apply import lora, merge, remove, unmerge
from burn.nn.adapt.files import load, save
from burn.nn.adapt.lora import LoRA
from burn.nn.adapt.norms import SpectralNorm, WeightNorm, bake, spectral_norm, weight_norm

__all__ = [
    "LoRA", "SpectralNorm", "WeightNorm", "bake", "load", "lora", "merge", "remove", "save", "spectral_norm", "unmerge",
    "weight_norm",
]  # fmt: skip
