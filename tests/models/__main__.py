"""`python -m tests.models [NAME ...]`: write the reference models and print path, signature and operators of each."""

from __future__ import annotations

import sys
from collections import Counter

import onnx

from tests.models import MODELS, Unavailable, instances, model_path


def operators(graph: onnx.GraphProto) -> Counter[str]:
    """How often each operator occurs, the bodies of control flow included."""
    counts: Counter[str] = Counter()
    for node in graph.node:
        counts[f"{node.domain}::{node.op_type}" if node.domain else node.op_type] += 1
        for attribute in node.attribute:
            for body in [*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs]:
                counts += operators(body)
    return counts


def signature(values: list[onnx.ValueInfoProto]) -> str:
    def text(value: onnx.ValueInfoProto) -> str:
        tensor = value.type.tensor_type
        dims = ", ".join(str(dim.dim_param or dim.dim_value) for dim in tensor.shape.dim)
        return f"{value.name}: {onnx.TensorProto.DataType.Name(tensor.elem_type).lower()}[{dims}]"

    return "; ".join(map(text, values))


def main(names: list[str]) -> int:
    unknown = [name for name in names if name not in MODELS]
    if unknown:
        print(f"unknown: {', '.join(unknown)}; known: {', '.join(MODELS)}", file=sys.stderr)
        return 2
    used: Counter[str] = Counter()
    for name, exporter in instances():
        if names and name not in names:
            continue
        label = f"{name} ({exporter})" if exporter else name
        try:
            path = model_path(name, exporter)
        except Unavailable as reason:
            print(f"{label}: absent, {reason}\n", flush=True)
            continue
        model = onnx.load(path, load_external_data=False)
        weights = {tensor.name for tensor in model.graph.initializer}
        counts = operators(model.graph)
        for function in model.functions:
            counts += operators(onnx.GraphProto(node=function.node))
        used.update(counts.keys())
        opsets = ", ".join(f"{opset.domain or 'ai.onnx'} {opset.version}" for opset in model.opset_import)
        print(f"{label}: {path}")
        print(f"  opset {opsets}; {counts.total()} nodes, {len(weights)} initializers")
        print(f"  in   {signature([value for value in model.graph.input if value.name not in weights])}")
        print(f"  out  {signature(list(model.graph.output))}")
        print(f"  ops  {', '.join(f'{op} {count}' for op, count in counts.most_common())}\n", flush=True)
    print(f"operators by the number of files that use them: {', '.join(f'{op} {n}' for op, n in sorted(used.items()))}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
