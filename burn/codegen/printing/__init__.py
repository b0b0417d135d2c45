"""The parts that printers of GPU languages (Triton, WGSL) share: `code`, the lines of a function's body; `expressions`, values by
node and index expressions; `arguments`, those of a kernel and of its launches.
"""
