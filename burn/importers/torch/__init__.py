"""PyTorch programs: exported modules and `.pt2` files.

Enter at `import_exported` (a torch.export program becomes one of burn's); modules that are called as torch's are in
burn/adapters/torch. Importing this package imports torch.
"""

from burn.importers.torch.exported import import_exported
from burn.importers.torch.file import import_pt2, read_pt2
from burn.importers.torch.node import BUILDERS, Node, aten

__all__ = [
    "BUILDERS",
    "Node",
    "aten",
    "import_exported",
    "import_pt2",
    "read_pt2",
]
