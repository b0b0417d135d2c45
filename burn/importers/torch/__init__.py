"""PyTorch programs: exported modules, `.pt2` files, and the `torch.compile` backend.

Enter at `import_exported` (a torch.export program becomes one of burn's), `compile_module` (what `burn.compile` does with
a module), or `torch.compile(model, backend="burn")`. Importing this package imports torch.
"""

from burn.importers.torch.dynamo import backend
from burn.importers.torch.exported import import_exported
from burn.importers.torch.file import import_pt2, read_pt2
from burn.importers.torch.module import CompiledModule, compile_module
from burn.importers.torch.node import BUILDERS, Node, aten

__all__ = [
    "BUILDERS",
    "CompiledModule",
    "Node",
    "aten",
    "backend",
    "compile_module",
    "import_exported",
    "import_pt2",
    "read_pt2",
]
