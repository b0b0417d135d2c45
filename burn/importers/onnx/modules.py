"""The modules of the source model that a node belongs to, as the PyTorch exporters record them. Enter at `modules_of`.

torch.onnx.export(dynamo=True) records them in the node's metadata. The exporter by TorchScript has only their names, in the
node's name ("/encoder/query/MatMul").
"""

from __future__ import annotations

import ast

import onnx

from burn.dialect.program import SourceModule

NAMES = "pkg.torch.onnx.name_scopes"
CLASSES = "pkg.torch.onnx.class_hierarchy"
"""Lists as Python prints them: the modules around a node from the outermost, and last the node's own name and operator."""


def scope_of(node: onnx.NodeProto) -> str:
    """The dotted path of the innermost module around a node; "" for the model itself, or if it is unknown."""
    known = _list(node, NAMES)
    if known is not None:
        return ["", "", *known][-2]
    return ".".join(part for part in node.name.split("/")[:-1] if part)


def modules_of(node: onnx.NodeProto) -> tuple[SourceModule, ...] | None:
    """The modules around a node from the outermost, with their classes; None if the file does not say."""
    names, classes = _list(node, NAMES), _list(node, CLASSES)
    if names is None or classes is None or len(names) != len(classes):
        return None
    pairs = zip(names[:-1], classes[:-1], strict=True)
    return tuple(SourceModule(name, cls) for name, cls in pairs if not name.startswith("_empty_nn_module_stack"))


def _list(node: onnx.NodeProto, key: str) -> list[str] | None:
    text = next((entry.value for entry in node.metadata_props if entry.key == key), None)
    if text is None:
        return None
    try:
        found = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None  # a file is free to have other text there
    return [str(part) for part in found] if isinstance(found, list) else None
