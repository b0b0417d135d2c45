"""PyTorch's interfaces: `compile_module` is what `burn.compile` does with a module, `to_train` with one to be trained; `backend`
is `torch.compile(backend="burn")`.

Importing this package imports torch.
"""

from burn.adapters.torch.dynamo import backend
from burn.adapters.torch.module import CompiledModule, compile_module
from burn.adapters.torch.training import TorchGraph, to_train

__all__ = ["CompiledModule", "TorchGraph", "backend", "compile_module", "to_train"]
