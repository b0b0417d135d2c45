"""StableHLO programs: text, bytecode, and artefacts of jax.export. Enter at `build.import_stablehlo`.

Modules:

    recognition.py                  StableHLO by a file's bytes
    parsing.py, jaxlib_reader.py    parsers of MLIR, in processes of their own, print the program's generic form
    syntax/                         the generic form as Python objects
    signature.py                    inputs, outputs and named sizes
    build.py                        functions, op by op, through one table of rules
    node.py                         what a rule gets
    known.py                        arithmetic with sizes
    regions.py                      what a region of scalars computes
    ops/                            the rules, by family; the array operations themselves are burn/importers/lax
"""
