"""ONNX models: enter at `import_onnx`, or at `import_opened` for one that is to be trained.

Modules:

    file.py, tensors.py, wire.py    reading: a mapped file, its tensors left in place
    check.py                        everything that is wrong with a model, found before anything is built
    functions.py                    model-local and standard functions
    build.py                        the graph, node by node, through one table of builders
    opening.py                      weights that are inputs of the program
    node.py                         what a builder gets
    contents.py, folding/           what is known of small tensors while importing: shape arithmetic
    forest.py                       decision trees, as `burn.tree_leaves` has them
    ops/                            the builders, by family
"""

from __future__ import annotations

from burn.importers.onnx.build import import_onnx, import_opened

__all__ = ["import_onnx", "import_opened"]
