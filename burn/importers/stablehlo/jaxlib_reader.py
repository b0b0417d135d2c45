"""A script that reads StableHLO with jaxlib and prints it in generic form. `parsing.py` runs it in a process of its own.

The parsers are native code, and a damaged file may end the process. Arguments: the kind ("text", "bytecode", "exported") and the
file. Standard output: one line of JSON, then the text. The JSON has "error", or what jax.export notes of a program.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any


def main(kind: str, path: str) -> int:
    with open(path, "rb") as file:
        data = file.read()
    notes: dict[str, Any] = {}
    try:
        if kind == "exported":
            notes, data = _exported(data)
        text = _generic(data, kind)
    except Exception as error:  # every error of the parser is the file's
        print(json.dumps({"error": f"{type(error).__name__}: {error}", "version": _version()}))
        return 1
    notes["version"] = _version()
    print(json.dumps(notes))
    sys.stdout.write(text)
    return 0


def _exported(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The metadata of jax.export, and the program's bytecode."""
    export = importlib.import_module("jax.export")
    tree = importlib.import_module("jax.tree_util")
    exported = export.deserialize(bytearray(data))
    paths, _ = tree.tree_flatten_with_path(exported.in_tree.unflatten(range(len(exported.in_avals))))
    names = {leaf: tree.keystr(path) for path, leaf in paths}
    outs, _ = tree.tree_flatten_with_path(exported.out_tree.unflatten(range(len(exported.out_avals))))
    notes = {
        "inputs": [
            [names.get(i, ""), str(a.dtype), [str(d) for d in a.shape]] for i, a in enumerate(exported.in_avals)
        ],
        "outputs": [tree.keystr(path) for path, _ in outs],
        "kept": list(exported.module_kept_var_idx),
        "platforms": list(exported.platforms),
        "devices": int(exported.nr_devices),
        "effects": [str(e) for e in (*exported.ordered_effects, *exported.unordered_effects)],
    }
    return notes, bytes(exported.mlir_module_serialized)


def _generic(data: bytes, kind: str) -> str:
    ir = importlib.import_module("jaxlib.mlir.ir")
    dialects = {name: importlib.import_module(f"jaxlib.mlir.dialects.{name}") for name in ("stablehlo", "chlo", "sdy")}
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        registry = ir.DialectRegistry()
        importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        for dialect in dialects.values():
            dialect.register_dialect(context)
        if kind != "text" and b"StableHLO_v" in data[:64]:
            module = dialects["stablehlo"].deserialize_portable_artifact(context, data)
        else:
            module = ir.Module.parse(data.decode() if kind == "text" else data, context)
        return module.operation.get_asm(print_generic_op_form=True, enable_debug_info=True)


def _version() -> str:
    try:
        return importlib.import_module("jaxlib.mlir.dialects.stablehlo").get_current_version()
    except Exception:  # it is for an error's text only
        return ""


if __name__ == "__main__":
    del sys.path[0]  # this folder
    sys.exit(main(sys.argv[1], sys.argv[2]))
