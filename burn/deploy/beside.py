"""Files beside a library: an example program in C, and configuration for CMake and pkg-config.

They use paths relative to their folder, so the folder is relocatable.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from burn.deploy.interface import Interface, Parameter
from burn.toolchain.platforms import Platform

if TYPE_CHECKING:
    from burn.deploy.train_interface import TrainInterface

_EXAMPLE_SIZE = 1
_TRAINING_SIZE = 8
"""Batch normalisation needs two rows, and a batch that is taken in parts one for each."""


def example(interface: Interface, weights: str) -> str:
    """main.c: one inference of zeros. weights: the file of weights, "" where they are in the library."""
    name = interface.name
    path = f'"{weights}"' if weights else "0"
    declared, arguments = _arguments(interface)
    if interface.is_sized:
        run = f"{name}_run({', '.join(['model', *arguments])})"
    else:
        run = f"{name}_run_tensors(model, inputs, outputs)"
        declared = _tensors(interface)
    lines = "\n".join(f"    {line}" for line in declared)
    return f"""/* One inference of the model {name}: see {name}.h. */
#include <stdio.h>

#include "{name}.h"

int main(void) {{
{lines}
    {name}_model *model;
    if ({name}_create(&model, {path}) || {run})
        return fprintf(stderr, "%s\\n", {name}_error()), 1;
    puts("{name} has run");
    {name}_destroy(model);
    return 0;
}}
"""


def training_example(interface: TrainInterface, weights: str) -> str:
    """main.c: a few steps on a batch of zeros, and a checkpoint. weights: as for `example`."""
    name, step = interface.name, interface.step
    path = f'"{weights}"' if weights else "0"
    declared, arguments = _arguments(step, _TRAINING_SIZE)
    if step.is_sized:
        call = f"{name}_step({', '.join(['model', *arguments])})"
    else:
        call = f"{name}_step_tensors(model, inputs, outputs)"
        declared = _tensors(step, _TRAINING_SIZE)
    lines = "\n".join(f"    {line}" for line in declared)
    return f"""/* A few steps of the training {name}: see {name}.h. */
#include <stdio.h>

#include "{name}.h"

int main(void) {{
{lines}
    {name}_model *model;
    int failed = {name}_create(&model, {path});
    for (int i = 0; i < 3 && !failed; i++)
        failed = {call};
    if (failed || {name}_save(model, "{name}.checkpoint.safetensors"))
        return fprintf(stderr, "%s\\n", {name}_error()), 1;
    printf("{name} has made %lld steps\\n", (long long){name}_steps(model));
    {name}_destroy(model);
    return 0;
}}
"""


def _elements(parameter: Parameter, interface: Interface, size: int) -> int:
    """How many numbers a tensor takes at the example's sizes."""
    from burn.runtime import sizes

    count = 2 if parameter.spec.dtype.startswith("complex") else 1
    known = dict.fromkeys(interface.symbols, size)
    for dim in parameter.dims:
        count *= dim if isinstance(dim, int) else max(sizes.parse(str(dim)).evaluate(known), 0)
    return count


def _arguments(interface: Interface, size: int = _EXAMPLE_SIZE) -> tuple[list[str], list[str]]:
    if not interface.is_sized:
        return [], []
    tensors = [*interface.inputs, *interface.outputs]
    declared = [f"static {p.c_type} {p.name}[{max(_elements(p, interface, size), 1)}];" for p in tensors]
    return declared, [*(str(size) for _ in interface.sizes), *(p.name for p in tensors)]


def _tensors(interface: Interface, size: int = _EXAMPLE_SIZE) -> list[str]:
    from burn.runtime import sizes
    from burn.runtime.dtypes import CODES, numpy_dtype

    known = dict.fromkeys(interface.symbols, size)
    data, rows = [], []
    for p in interface.inputs:
        dims = [d if isinstance(d, int) else max(sizes.parse(str(d)).evaluate(known), 0) for d in p.dims]
        count = _elements(p, interface, size)
        each = numpy_dtype(p.spec.dtype).itemsize // (2 if p.spec.dtype.startswith("complex") else 1)
        data.append(f"static {p.c_type} {p.name}[{max(count, 1)}];")
        listed = ", ".join(map(str, dims)) or "0"
        rows.append(f"{{{p.name}, {count * each}, {CODES.index(p.spec.dtype)}, {len(dims)}, {{{listed}}}}}")
    return [
        *data,
        f"burn_tensor inputs[] = {{{', '.join(rows) or '{0}'}}};",
        f"burn_tensor outputs[{max(len(interface.outputs), 1)}] = {{{{0}}}}; /* allocated by the run */",
    ]


def cmake(name: str, library: str, platform: Platform, shared: bool) -> str:
    """CMakeLists.txt: the library as a target, to be added as a folder; alone it builds main.c."""
    kind = "SHARED" if shared else "STATIC"
    linked = [] if shared else [flag.removeprefix("-l") for flag in platform.libraries]
    libraries = f"\nset_property(TARGET {name} PROPERTY INTERFACE_LINK_LIBRARIES {' '.join(linked)})" if linked else ""
    return f"""# The library {name}: add_subdirectory(this folder), then target_link_libraries(yours PRIVATE {name}).
cmake_minimum_required(VERSION 3.15)
project({name} LANGUAGES C)

add_library({name} {kind} IMPORTED GLOBAL)
set_target_properties({name} PROPERTIES
    IMPORTED_LOCATION "${{CMAKE_CURRENT_SOURCE_DIR}}/{library}"
    INTERFACE_INCLUDE_DIRECTORIES "${{CMAKE_CURRENT_SOURCE_DIR}}"){libraries}

if(CMAKE_SOURCE_DIR STREQUAL CMAKE_CURRENT_SOURCE_DIR)
    add_executable({name}_example main.c)
    target_link_libraries({name}_example PRIVATE {name})
endif()
"""


def pkg_config(name: str, platform: Platform, shared: bool, version: str) -> str:
    """<name>.pc: `PKG_CONFIG_PATH=folder pkg-config --cflags --libs <name>`."""
    linked = f"\nLibs.private: {' '.join(platform.libraries)}" if shared else f" {' '.join(platform.libraries)}"
    return f"""prefix=${{pcfiledir}}

Name: {name}
Description: a model compiled by burn
Version: {version}
Cflags: -I${{prefix}}
Libs: -L${{prefix}} -l{name}{linked}
"""


def files(
    interface: Interface, library: str, platform: Platform, shared: bool, weights: str, version: str
) -> Sequence[tuple[str, str]]:
    """Names and texts."""
    return (
        ("main.c", example(interface, weights)),
        ("CMakeLists.txt", cmake(interface.name, library, platform, shared)),
        (f"{interface.name}.pc", pkg_config(interface.name, platform, shared, version)),
    )
