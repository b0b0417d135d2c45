"""PyTorch's interfaces: `compile_module` is what `burn.compile` does with a module; `backend` is `torch.compile(backend="burn")`.

Importing this package imports torch.
"""

from burn.adapters.torch.dynamo import backend
from burn.adapters.torch.module import CompiledModule, compile_module

__all__ = ["CompiledModule", "backend", "compile_module"]
