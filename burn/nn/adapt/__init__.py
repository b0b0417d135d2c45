"""Changes to the weights of a model by path: low-rank adapters (LoRA), and weights computed from other parameters.

    nn.adapt.lora(model, r"query|value", rank=8)             # freezes the rest of the model
    burn.train.step(model, loss, optim.AdamW(model))          # trains the adapters alone
    nn.adapt.save(model, "adapter")                           # the folder format of peft
    nn.adapt.merge(model)                                     # for inference and export

`lora` adapts layers, also those with int4 and int8 weights (QLoRA), and the weights of imported models (`nn.Graph`).
"""

from burn.nn.adapt.apply import lora, merge, remove, unmerge
from burn.nn.adapt.files import load, save
from burn.nn.adapt.lora import LoRA

__all__ = ["LoRA", "load", "lora", "merge", "remove", "save", "unmerge"]
