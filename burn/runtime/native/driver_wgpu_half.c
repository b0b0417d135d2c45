/* float16 by instructions of the device.
 *
 * Texts of kernels have functions that convert by arithmetic on bits, so that every device gives the same results. WGSL's unpack2x16float
 * and pack2x16float are single instructions, but a device may flush denormals, round in another way, or give anything beyond the largest
 * number. So the first text with these functions is a question to the device: does it agree for every half and for floats near every
 * boundary? If it does, instructions replace the functions. The feature shader-f16 has nothing further: a tensor lies in 32-bit
 * words, and operations on float16 are rounded results of f32.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "driver_wgpu.h"

/* The lines around the functions in a text (burn/codegen/wgsl/library.py). */
static const char FIRST[] = "// half\n", LAST[] = "// ---- half\n";

#define INSTRUCTIONS(PREFIX)                                                                                                 \
    "fn " PREFIX "float_of_half(code: u32) -> f32 { return unpack2x16float(code).x; }\n"                                     \
    "fn " PREFIX "half_of_float(x: f32) -> u32 { return pack2x16float(vec2<f32>(x, 0.0)); }\n"                               \
    "fn " PREFIX "rounded_half(x: f32) -> f32 { return " PREFIX "float_of_half(" PREFIX "half_of_float(x)); }\n"

/* Words: workgroups, the address of a word that becomes 1 if a result differs. An invocation for each 16 bits: those of a half, and the
 * upper ones of floats. The lower bits are those around numbers of float16 and ties; the upper ones vary them for denormals. */
static const char QUESTION[] = "@group(0) @binding(0) var<storage, read_write> heap: array<u32>;\n"
                               "@group(0) @binding(1) var<uniform> words: array<vec4<u32>, 1>;\n" INSTRUCTIONS("quick_")
    "fn differ(a: f32, b: f32) -> bool {\n"
    "  let x = bitcast<u32>(a);\n"
    "  let y = bitcast<u32>(b);\n"
    "  return x != y && ((x & 0x7fffffffu) <= 0x7f800000u || (y & 0x7fffffffu) <= 0x7f800000u);\n"
    "}\n"
    "@compute @workgroup_size(256)\n"
    "fn main(@builtin(local_invocation_index) lane: u32, @builtin(workgroup_id) group: vec3<u32>) {\n"
    "  let code = group.x * 256u + lane;\n"
    "  var bad = differ(float_of_half(code), quick_float_of_half(code));\n"
    "  var lost = array<u32, 6>(0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x1fffu);\n"
    "  for (var kept = 0u; kept < 8u; kept = kept + 1u) {\n"
    "    for (var i = 0u; i < 6u; i = i + 1u) {\n"
    "      let x = bitcast<f32>((code << 16u) | (kept << 13u) | lost[i]);\n"
    "      let half = half_of_float(x);\n"
    "      let quick = quick_half_of_float(x);\n"
    "      bad = bad || (half != quick && ((half & 0x7fffu) <= 0x7c00u || (quick & 0x7fffu) <= 0x7c00u));\n"
    "      bad = bad || differ(float_of_half(half), quick_rounded_half(x));\n"
    "    }\n"
    "  }\n"
    "  if (bad) { heap[words[0].y / 4u] = 1u; }\n"
    "}\n";

/* The text of the question: the functions of a kernel's text, from `first` to `last`, and those by instructions. */
static wgpu_kernel *question(const char *first, const char *last) {
    char *text = malloc((size_t)(last - first) + sizeof QUESTION);
    if (!text)
        return NULL;
    sprintf(text, "%.*s%s", (int)(last - first), first, QUESTION);
    wgpu_kernel *kernel = burn_wgpu_kernel("main", text);
    free(text);
    return kernel;
}

/* 1 if the device's instructions agree with the functions; 0 if not, or if that cannot be found out. */
static int agrees(const char *first, const char *last) {
    uint64_t memory, local;
    uint32_t differs = 1;
    wgpu_kernel *kernel = question(first, last);
    int code = kernel ? burn_wgpu_alloc(&memory, sizeof differs) : 1;
    if (!code) {
        local = memory;
        burn_wgpu_local(&local);
        wgpu_work clear = burn_wgpu_by_words(wgpu.fill, local, 0, sizeof differs);
        wgpu_work work = burn_wgpu_by_words(kernel, local, 0, 0);
        work.words[0] = 65536 / 256;
        code = burn_wgpu_run(&clear);
        if (!code)
            code = burn_wgpu_run(&work);
        if (!code)
            code = burn_wgpu_fetch_now(&differs, memory, sizeof differs);
        burn_wgpu_release(memory);
    }
    burn_wgpu_delete_kernel(kernel);
    burn_wgpu_status(); /* a failure is no failure of the program */
    return !code && !differs;
}

char *burn_wgpu_with_half(const char *text) {
    const char *first = strstr(text, FIRST), *last = first ? strstr(first, LAST) : NULL;
    if (!last || wgpu.capture || wgpu.half_by_bits)
        return NULL;
    if (wgpu.half == HALF_UNKNOWN)
        wgpu.half = agrees(first, last) ? HALF_BY_INSTRUCTIONS : HALF_BY_BITS;
    char *made = wgpu.half == HALF_BY_INSTRUCTIONS ? malloc(strlen(text) + sizeof INSTRUCTIONS("")) : NULL;
    if (made)
        sprintf(made, "%.*s%s%s", (int)(first - text), text, INSTRUCTIONS(""), last);
    return made;
}
