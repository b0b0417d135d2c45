"""Functions that are copied into printed modules: this file is read as text, and never imported.

program.py copies the functions that a kernel calls, and those that they call, to the head of the module.
"""

# Triton need not be installed, and the functions of its device library are stubs that return None.
# pyright: reportMissingImports=false, reportOperatorIssue=false, reportGeneralTypeIssues=false
import triton
import triton.language as tl
from triton.language.extra import libdevice


# ---- index expressions -------------------------------------------------------------------------------------------------
@triton.jit
def floordiv(a, b):
    """Python's quotient, for b > 0."""
    q = a // b
    return tl.where(a - q * b < 0, q - 1, q)


@triton.jit
def floormod(a, b):
    """Python's remainder, for b > 0."""
    r = a - (a // b) * b
    return tl.where(r < 0, r + b, r)


@triton.jit
def report(failure, site, index, bad):
    """Records an index out of range: one word with the site above 48 bits of the index."""
    tl.store(failure + bad.to(tl.int64) * 0, site | (index.to(tl.int64) & 0xFFFFFFFFFFFF), mask=bad)


# ---- ranks -------------------------------------------------------------------------------------------------------------
@triton.jit
def ranks_of_digits(digit):
    """The stable ranks of digits of four bits in a block of less than 65,536. A word holds the counts of four digits."""
    word, shift = digit >> 2, ((digit & 3) * 16).to(tl.int64)
    one = tl.full(digit.shape, 1, tl.int64) << shift
    c0, c1 = tl.where(word == 0, one, 0), tl.where(word == 1, one, 0)
    c2, c3 = tl.where(word == 2, one, 0), tl.where(word == 3, one, 0)
    i0, i1, i2, i3 = tl.cumsum(c0, 0), tl.cumsum(c1, 0), tl.cumsum(c2, 0), tl.cumsum(c3, 0)
    t0, t1, t2, t3 = tl.sum(c0, 0), tl.sum(c1, 0), tl.sum(c2, 0), tl.sum(c3, 0)
    # multiplied by this, a word holds sums of its counts
    p0, p1, p2, p3 = t0 * 0x1000100010001, t1 * 0x1000100010001, t2 * 0x1000100010001, t3 * 0x1000100010001
    s0 = (p0 >> 48) & 0xFFFF
    s1 = s0 + ((p1 >> 48) & 0xFFFF)
    s2 = s1 + ((p2 >> 48) & 0xFFFF)
    i0, i1 = i0 + (p0 - t0), i1 + (p1 - t1 + s0 * 0x1000100010001)
    i2, i3 = i2 + (p2 - t2 + s1 * 0x1000100010001), i3 + (p3 - t3 + s2 * 0x1000100010001)
    mine = tl.where(word < 2, tl.where(word == 0, i0, i1), tl.where(word == 2, i2, i3))
    return ((mine >> shift) & 0xFFFF).to(tl.int32) - 1


@triton.jit
def sorted_words(word, memory, along, steps, LOW: tl.constexpr, ROWS: tl.constexpr):
    """Sorts a block stably by `steps` digits of four bits, from bit LOW on. memory: two words for each element."""
    for number in range(steps):
        digit = ((word >> (number * 4 + LOW)) & 15).to(tl.int32)
        half = memory + number % 2 * ROWS
        tl.store(half + ranks_of_digits(digit), word)
        tl.debug_barrier()
        word = tl.load(half + along)
    return word


# ---- dropout -----------------------------------------------------------------------------------------------------------
@triton.jit
def turned(x0, x1, LEFT: tl.constexpr):
    """A round of Threefry-2x32."""
    x0 = x0 + x1
    return x0, x0 ^ ((x1 << LEFT) | (x1 >> (32 - LEFT)))


@triton.jit
def even_rounds(x0, x1):
    x0, x1 = turned(x0, x1, 13)
    x0, x1 = turned(x0, x1, 15)
    x0, x1 = turned(x0, x1, 26)
    return turned(x0, x1, 6)


@triton.jit
def odd_rounds(x0, x1):
    x0, x1 = turned(x0, x1, 17)
    x0, x1 = turned(x0, x1, 29)
    x0, x1 = turned(x0, x1, 16)
    return turned(x0, x1, 24)


@triton.jit
def threefry(k0, k1, x0, x1):
    """The 20 rounds of burn/dialect/random.py."""
    k2 = k0 ^ k1 ^ 0x1BD11BDA
    x0, x1 = even_rounds(x0 + k0, x1 + k1)
    x0, x1 = odd_rounds(x0 + k1, x1 + (k2 + 1))
    x0, x1 = even_rounds(x0 + k2, x1 + (k0 + 2))
    x0, x1 = odd_rounds(x0 + k0, x1 + (k1 + 3))
    x0, x1 = even_rounds(x0 + k1, x1 + (k2 + 4))
    return x0 + k2, x1 + (k0 + 5)


@triton.jit
def kept(k0, k1, row, calls, start, along, BITS: tl.constexpr, THRESHOLD: tl.constexpr):
    """True for an element of a row that dropout keeps (burn/dialect/dropout.py), in column `start` + `along`; `start` is a
    multiple of 16. calls: the cipher's calls for a row."""
    begin = (calls + tl.zeros((), tl.int64)) * row
    if BITS == 16:
        call = begin + ((start >> 2) + (((along >> 4) << 2) | ((along >> 1) & 3)))
    else:
        call = begin + ((start >> 1) + (((along >> 4) << 3) | (along & 7)))
    first, second = threefry(k0, k1, call.to(tl.uint32), (call >> 32).to(tl.uint32))
    word = tl.where((along & 8) == 0, first, second)
    if BITS == 16:
        word = tl.where((along & 1) == 0, word & 0xFFFF, word >> 16)
    return word >= THRESHOLD


# ---- integers ----------------------------------------------------------------------------------------------------------
@triton.jit
def quotient(a, b):
    """Truncated; x / 0 is 0."""
    none = b == 0
    return tl.where(none, 0, a // tl.where(none, 1, b)).to(a.dtype)


@triton.jit
def signed_quotient(a, b):
    """Truncated; x / 0 is 0, and the least integer / -1 wraps to itself."""
    special = (b == 0) | (b == -1)
    q = a // tl.where(special, 1, b).to(a.dtype)
    return tl.where(b == 0, 0, tl.where(b == -1, 0 - a, q)).to(a.dtype)


@triton.jit
def rest(a, b):
    """C's %; x % 0 is 0."""
    return tl.where(b == 0, 0, a - quotient(a, b) * b).to(a.dtype)


@triton.jit
def signed_rest(a, b):
    return tl.where(b == 0, 0, a - signed_quotient(a, b) * b).to(a.dtype)


@triton.jit
def integer_floordiv(a, b):
    r = signed_rest(a, b)
    return (signed_quotient(a, b) - tl.where((r != 0) & ((r ^ b) < 0), 1, 0)).to(a.dtype)


@triton.jit
def integer_mod(a, b):
    r = signed_rest(a, b)
    return tl.where((r != 0) & ((r ^ b) < 0), r + b, r)


@triton.jit
def integer_power(base, exponent, WIDTH: tl.constexpr):
    """By squaring, modulo 2^WIDTH."""
    result = tl.full(base.shape, 1, base.dtype)
    square = base
    left = exponent
    for _ in range(WIDTH):
        result = tl.where((left & 1) != 0, result * square, result)
        square = square * square
        left = left >> 1
    return result


@triton.jit
def signed_power(base, exponent, WIDTH: tl.constexpr):
    """A negative exponent gives the reciprocal truncated: 0 unless the base is 1 or -1."""
    parity = tl.where((exponent & 1) == 0, 1, base)
    reciprocal = tl.where(base == -1, parity, tl.where(base == 1, 1, 0))
    return tl.where(exponent < 0, reciprocal, integer_power(base, exponent, WIDTH)).to(base.dtype)


@triton.jit
def signum(x):
    """0 for a zero of either sign; NaN stays."""
    return tl.where(x > 0, 1, tl.where(x < 0, -1, x + 0)).to(x.dtype)


@triton.jit
def one_plus_erf(x):
    """1 + erf(x) of float32, within 2e-7, and relative to itself within 2e-5 for x > -4. GELU and its derivative have it.

    erfc(z) is 2 to the power of z times a polynomial of z, by a minimax fit on [0, 4.2]. The power decreases beyond. Unlike the
    device library's erf, it has no two cases, whose coefficients would be chosen for each element."""
    z = tl.abs(x)
    r = z * -1.1223144156247145e-06 + 2.2708758478984237e-05
    r = r * z - 1.971878664335236e-04
    r = r * z + 9.396905079483986e-04
    r = r * z - 2.3801762145012617e-03
    r = r * z + 1.5184823132585734e-04
    r = r * z + 2.7703117579221725e-02
    r = r * z - 1.4830558001995087e-01
    r = r * z - 9.184427261352539e-01
    r = r * z - 1.6279072761535645
    tail = tl.exp2(r * z)
    return tl.where(x < 0, tail, 2.0 - tail)


@triton.jit
def whole(x, WIDE: tl.constexpr, LIMIT: tl.constexpr):
    """Truncates a float; NaN and numbers out of range become the least integer."""
    return tl.where((x >= -LIMIT) & (x < LIMIT), x, -LIMIT).to(WIDE)


@triton.jit
def whole_unsigned(x):
    """Truncates a float to 64 bits; a negative number wraps, and one beyond 2^64 becomes 0."""
    upper = tl.where((x >= 9223372036854775808.0) & (x < 18446744073709551616.0), x, 0).to(tl.uint64)
    lower = whole(x, tl.int64, 9223372036854775808.0).to(tl.uint64)
    return tl.where(x >= 9223372036854775808.0, upper, lower)


@triton.jit
def rounded_to_odd(x):
    """Rounds a double to float towards zero, and sets the last bit if the result is inexact. Rounding that result further is
    the same as rounding x once."""
    near = x.to(tl.float32)
    back = near.to(tl.float64)
    bits = near.to(tl.int32, bitcast=True) - tl.where(tl.abs(back) > tl.abs(x), 1, 0)
    lost = (back < x) | (back > x)
    return (bits | tl.where(lost, 1, 0)).to(tl.float32, bitcast=True)


@triton.jit
def rounded_tf32(x):
    """Rounds float32 to TF32's 11 significant bits, half away from zero. Tensor cores ignore the lower 13 bits of their operands,
    which would make each result too small, and an infinity of a NaN that has only these."""
    bits = (x.to(tl.uint32, bitcast=True) + 0x1000) & 0xFFFFE000
    return tl.where(x == x, bits.to(tl.float32, bitcast=True), float("nan"))


@triton.jit
def from_small(
    code,
    BITS: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    LARGEST: tl.constexpr,
    NAN: tl.constexpr,
    INFINITY: tl.constexpr,
    ONE_ZERO: tl.constexpr,
):
    """Decodes a float of at most 8 bits."""
    SIGN: tl.constexpr = 1 << (BITS - 1)
    bits = code.to(tl.int32)
    magnitude = bits & (SIGN - 1)
    normal = ((magnitude << (23 - MANTISSA)) + ((127 - BIAS) << 23)).to(tl.float32, bitcast=True)
    denormal = magnitude.to(tl.float32) * (2.0 ** (1 - BIAS - MANTISSA))
    result = tl.where(magnitude < (1 << MANTISSA), denormal, normal)
    if INFINITY >= 0:
        result = tl.where(magnitude == INFINITY, float("inf"), result)
        result = tl.where(magnitude > INFINITY, float("nan"), result)
    elif ONE_ZERO:
        result = tl.where(bits == NAN, float("nan"), result)
    elif NAN >= 0:
        result = tl.where(magnitude > LARGEST, float("nan"), result)
    return (result.to(tl.int32, bitcast=True) | ((bits & SIGN) << (32 - BITS))).to(tl.float32, bitcast=True)


@triton.jit
def to_small(
    x,
    BITS: tl.constexpr,
    MANTISSA: tl.constexpr,
    BIAS: tl.constexpr,
    LARGEST: tl.constexpr,
    NAN: tl.constexpr,
    INFINITY: tl.constexpr,
    ONE_ZERO: tl.constexpr,
    OVERFLOW: tl.constexpr,
):
    """Adds half a step, or one bit less if the last kept bit is even. A float addition rounds denormals."""
    SIGN: tl.constexpr = 1 << (BITS - 1)
    SHIFT: tl.constexpr = 23 - MANTISSA
    bits = x.to(tl.int32, bitcast=True)
    magnitude = bits & 0x7FFFFFFF
    rounded = magnitude + ((1 << (SHIFT - 1)) - 1) + ((magnitude >> SHIFT) & 1)
    normal = (rounded >> SHIFT) - ((127 - BIAS) << MANTISSA)
    steps = tl.abs(x) * (2.0 ** (BIAS - 1 + MANTISSA)) + 12582912.0
    denormal = steps.to(tl.int32, bitcast=True) - 0x4B400000
    result = tl.where(magnitude < ((128 - BIAS) << 23), denormal, normal)
    result = tl.where(result > LARGEST, OVERFLOW, result)
    sign = (bits >> (32 - BITS)) & SIGN
    if NAN < 0:
        result = tl.where(x != x, SIGN - sign, result | sign)
    elif ONE_ZERO:
        result = tl.where(x != x, NAN, result | tl.where(result == 0, 0, sign))
    else:
        result = tl.where(x != x, NAN, result) | sign
    return result.to(tl.uint8)


@triton.jit
def from_exponent(code):
    """2^(code - 127); 255 is NaN."""
    bits = code.to(tl.int32)
    value = tl.where(bits == 0, 0x400000, bits << 23).to(tl.float32, bitcast=True)
    return tl.where(bits == 255, float("nan"), value)


@triton.jit
def to_exponent(x, SATURATE: tl.constexpr):
    """Encodes the next larger power of two."""
    bits = x.to(tl.int32, bitcast=True) & 0x7FFFFFFF
    exponent = bits >> 23
    up = (bits & 0x7FFFFF) >= tl.where(exponent == 0, 0x400001, 1)
    result = exponent + tl.where(up, 1, 0)
    result = tl.where(result > 254, 254 if SATURATE else 255, result)
    wrong = (x != x) | (x < 0.0)
    if not SATURATE:
        wrong = wrong | (x < 2.0**-127)
    return tl.where(wrong, 255, result).to(tl.uint8)


# ---- floats ------------------------------------------------------------------------------------------------------------
@triton.jit
def float_mod(x, y):
    """Python's %: the remainder has the divisor's sign."""
    r = libdevice.fmod(x, y)
    moved = tl.where((r < 0) != (y < 0), r + y, r)
    return tl.where(r == 0, libdevice.copysign(r, y), moved)


@triton.jit
def float_floordiv(x, y):
    """The floor of the exact quotient; floor(x / y) would be wrong if x / y rounds up to an integer."""
    r = libdevice.fmod(x, y)
    q = (x - r) / y
    q = tl.where((r != 0) & ((r < 0) != (y < 0)), q - 1, q)
    low = tl.floor(q)
    whole = low + tl.where(q - low > 0.5, 1.0, 0.0)
    return tl.where(y == 0, x / y, tl.where(whole == 0, libdevice.copysign(whole, x / y), whole))


@triton.jit
def wide_dot(a, b, total):
    """A matmul of float64 blocks, which tl.dot does not support."""
    return total + tl.sum(a[:, :, None] * b[None, :, :], 1)


# ---- reductions --------------------------------------------------------------------------------------------------------
@triton.jit
def add(a, b):
    return a + b


@triton.jit
def mul(a, b):
    return a * b


@triton.jit
def either(a, b):
    return a | b


@triton.jit
def both(a, b):
    return a & b


@triton.jit
def greatest(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def least(a, b):
    return tl.minimum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def first_greatest(a, i, b, j):
    """The larger of two elements with their indices (-1: none). NaN is larger than all; ties go to the first."""
    odd_a, odd_b = a != a, b != b
    better = (odd_b & (odd_a == 0)) | (b > a) | (((a == b) | (odd_a & odd_b)) & (j < i))
    taken = (j >= 0) & ((i < 0) | better)
    return tl.where(taken, b, a), tl.where(taken, j, i)


@triton.jit
def last_greatest(a, i, b, j):
    odd_a, odd_b = a != a, b != b
    better = (odd_b & (odd_a == 0)) | (b > a) | (((a == b) | (odd_a & odd_b)) & (j > i))
    taken = (j >= 0) & ((i < 0) | better)
    return tl.where(taken, b, a), tl.where(taken, j, i)


@triton.jit
def first_least(a, i, b, j):
    odd_a, odd_b = a != a, b != b
    better = (odd_b & (odd_a == 0)) | (b < a) | (((a == b) | (odd_a & odd_b)) & (j < i))
    taken = (j >= 0) & ((i < 0) | better)
    return tl.where(taken, b, a), tl.where(taken, j, i)


@triton.jit
def last_least(a, i, b, j):
    odd_a, odd_b = a != a, b != b
    better = (odd_b & (odd_a == 0)) | (b < a) | (((a == b) | (odd_a & odd_b)) & (j > i))
    taken = (j >= 0) & ((i < 0) | better)
    return tl.where(taken, b, a), tl.where(taken, j, i)
