"""Contraction kernels (matmul and convolution) of the CPU back end.

    tiling            a kernel as panels of columns, with operands that advance by constant steps
    packing           reads operands: in place, converted, or from copied panels
    gemm              the register-tiled kernel of vector instructions: its tiles, one after the other
    schedule          tile sizes, the order of tiles, and operands that are copied before them
    accumulation      a tile's multiply-adds over the depth
    gemv              few rows with weights of a few bits
    blockwise         weights of a few bits with a scale for each block, and their conversion to floats
    int8_activations  rows of floats as 24-bit integers in int8 limbs, for weights of a few bits
    vnni              instructions that multiply bytes and add neighbouring results
    bf16_pairs        the instruction that multiplies bfloat16 and adds pairs
    amx               the kernel of AMX tile registers
    amx_instructions  AMX's instructions
    amx_rows          operands of AMX that are multiplied as they are in memory: int8, bfloat16
    bf16_split        float32 operands of AMX as three bfloat16 each
    amx_fallback      float32 sums of tiles with elements that are not finite
    epilogue          writes a tile's accumulators

`burn/codegen/cpu/kernels.py` chooses between `gemm`, `gemv` and `amx`; choices that affect only speed are in
`burn/codegen/cpu/heuristics/`.
"""
