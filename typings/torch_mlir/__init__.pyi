# torch-mlir's wheel is marked as typed but leaves out the types of its core modules, so a checker would call every name in
# them unknown. These stubs say what is true: the types are not known.
