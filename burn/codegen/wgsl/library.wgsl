// Functions that are copied into kernels: a kernel gets those that it calls, and those that they call.

// ---- memory -------------------------------------------------------------------------------------------------------------

fn load_64(base: u32, index: i32) -> vec2<u32> {
  let at = base + 2u * u32(index);
  return vec2<u32>(read(at), read(at + 1u));
}

fn load_16(base: u32, index: i32) -> u32 {
  let at = u32(index);
  return (read(base + (at >> 1u)) >> ((at & 1u) * 16u)) & 65535u;
}

fn load_8(base: u32, index: i32) -> u32 {
  let at = u32(index);
  return (read(base + (at >> 2u)) >> ((at & 3u) * 8u)) & 255u;
}

fn store_64(base: u32, index: i32, value: vec2<u32>) {
  let at = base + 2u * u32(index);
  write(at, value.x);
  write(at + 1u, value.y);
}

fn store_16(base: u32, index: i32, code: u32) {
  let at = u32(index);
  write_part(base + (at >> 1u), (at & 1u) * 16u, 65535u, code);
}

fn store_8(base: u32, index: i32, code: u32) {
  let at = u32(index);
  write_part(base + (at >> 2u), (at & 3u) * 8u, 255u, code);
}

// Changes some bits of a word, whose other bits another invocation may change at the same time.
fn write_part(at: u32, shift: u32, mask: u32, code: u32) {
  change(at, ~(mask << shift), (code & mask) << shift);
}

// Records an index out of range: two words with the site in the upper 16 bits, the index in the lower 48. The first report stays.
fn report(failure: u32, site: u32, index: vec2<u32>) {
  if (claim(failure + 1u, (site << 16u) | (index.y & 65535u))) { write(failure, index.x); }
}

// An index from data: a negative one counts from the end, one out of range is reported and becomes 0.
fn fetched(index: vec2<u32>, extent: i32, failure: u32, site: u32) -> i32 {
  let low = bitcast<i32>(index.x);
  if (bitcast<i32>(index.y) == (low >> 31u)) {
    let at = select(low, low + extent, low < 0);
    if (at >= 0 && at < extent) { return at; }
  }
  report(failure, site, index);
  return 0;
}

// ---- index expressions --------------------------------------------------------------------------------------------------

fn floordiv(a: i32, b: i32) -> i32 {
  let q = a / b;
  return select(q, q - 1, a - q * b < 0);
}

fn floormod(a: i32, b: i32) -> i32 {
  let r = a - (a / b) * b;
  return select(r, r + b, r < 0);
}

fn broadcast(a: i32, b: i32) -> i32 { return select(a, b, a == 1); }

// ---- integers of 32 bits ------------------------------------------------------------------------------------------------

// Truncated; x / 0 is 0, and the least integer / -1 wraps to itself.
fn quotient_i32(a: i32, b: i32) -> i32 {
  if (b == 0) { return 0; }
  if (b == -1) { return 0 - a; }
  return a / b;
}

fn quotient_u32(a: u32, b: u32) -> u32 {
  if (b == 0u) { return 0u; }
  return a / b;
}

// C's %; x % 0 is 0.
fn rest_i32(a: i32, b: i32) -> i32 { return select(a - quotient_i32(a, b) * b, 0, b == 0); }

fn rest_u32(a: u32, b: u32) -> u32 { return select(a - quotient_u32(a, b) * b, 0u, b == 0u); }

fn floordiv_i32(a: i32, b: i32) -> i32 {
  let r = rest_i32(a, b);
  return quotient_i32(a, b) - select(0, 1, r != 0 && (r ^ b) < 0);
}

fn mod_i32(a: i32, b: i32) -> i32 {
  let r = rest_i32(a, b);
  return select(r, r + b, r != 0 && (r ^ b) < 0);
}

fn power_u32(base: u32, exponent: u32) -> u32 {
  var result = 1u;
  var square = base;
  for (var left = exponent; left != 0u; left = left >> 1u) {
    if ((left & 1u) != 0u) { result = result * square; }
    square = square * square;
  }
  return result;
}

// A negative exponent gives the reciprocal, truncated: 0 unless the base is 1 or -1.
fn power_i32(base: i32, exponent: i32) -> i32 {
  if (exponent < 0) {
    if (base == 1) { return 1; }
    if (base == -1) { return select(-1, 1, (exponent & 1) == 0); }
    return 0;
  }
  return bitcast<i32>(power_u32(bitcast<u32>(base), bitcast<u32>(exponent)));
}

fn sign_i32(x: i32) -> i32 { return select(select(0, -1, x < 0), 1, x > 0); }

// Shifts by the width or more give 0; shift_right is logical.
fn shifted_left(x: u32, by: u32, width: u32) -> u32 { return select(0u, x << (by & 31u), by < width); }

fn shifted_right(x: u32, by: u32, width: u32) -> u32 { return select(0u, x >> (by & 31u), by < width); }

// ---- integers of 64 bits, the lower word first --------------------------------------------------------------------------

fn long_of_i32(x: i32) -> vec2<u32> { return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u)); }

fn add_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = a.x + b.x;
  return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn neg_64(a: vec2<u32>) -> vec2<u32> { return add_64(~a, vec2<u32>(1u, 0u)); }

fn sub_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

// The product of two words, by halves.
fn mul_32(a: u32, b: u32) -> vec2<u32> {
  let a0 = a & 65535u;
  let a1 = a >> 16u;
  let b0 = b & 65535u;
  let b1 = b >> 16u;
  let low = a0 * b0;
  let middle = a1 * b0 + (low >> 16u);
  let other = a0 * b1 + (middle & 65535u);
  return vec2<u32>((other << 16u) | (low & 65535u), a1 * b1 + (middle >> 16u) + (other >> 16u));
}

fn mul_64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let low = mul_32(a.x, b.x);
  return vec2<u32>(low.x, low.y + a.x * b.y + a.y * b.x);
}

fn fma_64(a: vec2<u32>, b: vec2<u32>, c: vec2<u32>) -> vec2<u32> { return add_64(mul_64(a, b), c); }

fn eq_64(a: vec2<u32>, b: vec2<u32>) -> bool { return a.x == b.x && a.y == b.y; }

fn lt_u64(a: vec2<u32>, b: vec2<u32>) -> bool { return a.y < b.y || (a.y == b.y && a.x < b.x); }

fn lt_i64(a: vec2<u32>, b: vec2<u32>) -> bool {
  return bitcast<i32>(a.y) < bitcast<i32>(b.y) || (a.y == b.y && a.x < b.x);
}

fn negative_64(a: vec2<u32>) -> bool { return bitcast<i32>(a.y) < 0; }

fn abs_64(a: vec2<u32>) -> vec2<u32> { return select(a, neg_64(a), negative_64(a)); }

fn sign_i64(a: vec2<u32>) -> vec2<u32> {
  if (negative_64(a)) { return vec2<u32>(4294967295u, 4294967295u); }
  return vec2<u32>(select(0u, 1u, (a.x | a.y) != 0u), 0u);
}

fn shifted_left_64(a: vec2<u32>, by: vec2<u32>) -> vec2<u32> {
  if (by.y != 0u || by.x >= 64u) { return vec2<u32>(); }
  let n = by.x & 31u;
  if (by.x >= 32u) { return vec2<u32>(0u, a.x << n); }
  let over = select(a.x >> ((32u - n) & 31u), 0u, n == 0u);
  return vec2<u32>(a.x << n, (a.y << n) | over);
}

fn shifted_right_64(a: vec2<u32>, by: vec2<u32>) -> vec2<u32> {
  if (by.y != 0u || by.x >= 64u) { return vec2<u32>(); }
  let n = by.x & 31u;
  if (by.x >= 32u) { return vec2<u32>(a.y >> n, 0u); }
  let over = select(a.y << ((32u - n) & 31u), 0u, n == 0u);
  return vec2<u32>((a.x >> n) | over, a.y >> n);
}

// Long division, a bit at a time; by 32-bit division if both fit. x / 0 is 0.
fn quotient_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (b.x == 0u && b.y == 0u) { return vec2<u32>(); }
  if (a.y == 0u && b.y == 0u) { return vec2<u32>(a.x / b.x, 0u); }
  var quotient = vec2<u32>();
  var rest = vec2<u32>();
  for (var i = 63; i >= 0; i--) {
    let bit = select(a.x >> (u32(i) & 31u), a.y >> (u32(i) & 31u), i >= 32) & 1u;
    let carried = (rest.y >> 31u) != 0u;
    rest = vec2<u32>((rest.x << 1u) | bit, (rest.y << 1u) | (rest.x >> 31u));
    if (carried || !lt_u64(rest, b)) {
      rest = sub_64(rest, b);
      if (i >= 32) { quotient.y = quotient.y | (1u << (u32(i) & 31u)); }
      else { quotient.x = quotient.x | (1u << u32(i)); }
    }
  }
  return quotient;
}

fn quotient_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let q = quotient_u64(abs_64(a), abs_64(b));
  return select(q, neg_64(q), negative_64(a) != negative_64(b));
}

fn rest_u64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (b.x == 0u && b.y == 0u) { return vec2<u32>(); }
  return sub_64(a, mul_64(quotient_u64(a, b), b));
}

fn rest_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  if (b.x == 0u && b.y == 0u) { return vec2<u32>(); }
  return sub_64(a, mul_64(quotient_i64(a, b), b));
}

fn moves_64(r: vec2<u32>, b: vec2<u32>) -> bool { return (r.x | r.y) != 0u && negative_64(r) != negative_64(b); }

fn floordiv_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let q = quotient_i64(a, b);
  return select(q, add_64(q, vec2<u32>(4294967295u, 4294967295u)), moves_64(rest_i64(a, b), b));
}

fn mod_i64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
  let r = rest_i64(a, b);
  return select(r, add_64(r, b), moves_64(r, b));
}

fn power_u64(base: vec2<u32>, exponent: vec2<u32>) -> vec2<u32> {
  var result = vec2<u32>(1u, 0u);
  var square = base;
  var left = exponent;
  while ((left.x | left.y) != 0u) {
    if ((left.x & 1u) != 0u) { result = mul_64(result, square); }
    square = mul_64(square, square);
    left = shifted_right_64(left, vec2<u32>(1u, 0u));
  }
  return result;
}

fn power_i64(base: vec2<u32>, exponent: vec2<u32>) -> vec2<u32> {
  if (negative_64(exponent)) {
    if (base.x == 1u && base.y == 0u) { return base; }
    if ((base.x & base.y) == 4294967295u) { return select(base, vec2<u32>(1u, 0u), (exponent.x & 1u) == 0u); }
    return vec2<u32>();
  }
  return power_u64(base, exponent);
}

// ---- bits of floats -----------------------------------------------------------------------------------------------------

// The float with these bits. A call is no constant expression, which must not be infinite or NaN.
fn float_of(code: u32) -> f32 { return bitcast<f32>(code); }

// The same number. Compilers do not know that the first word, a number of workgroups, is below 2^31.
fn hidden_f32(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) | (words[0].x >> 31u)); }

fn is_nan(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u; }

fn is_inf(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u; }

fn is_nonzero(x: f32) -> bool { return (bitcast<u32>(x) & 0x7fffffffu) != 0u; }

// Comparisons with NaN are false. The operators may give anything for NaN, as compilers may assume that there is none.
fn eq_f32(a: f32, b: f32) -> bool { return !is_nan(a) && !is_nan(b) && a == b; }

fn lt_f32(a: f32, b: f32) -> bool { return !is_nan(a) && !is_nan(b) && a < b; }

fn le_f32(a: f32, b: f32) -> bool { return !is_nan(a) && !is_nan(b) && a <= b; }

fn with_sign(x: f32, y: f32) -> f32 {
  return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u));
}

fn least(a: f32, b: f32) -> f32 {
  if (is_nan(a)) { return a; }
  if (is_nan(b)) { return b; }
  return select(a, b, b < a);
}

fn greatest(a: f32, b: f32) -> f32 {
  if (is_nan(a)) { return a; }
  if (is_nan(b)) { return b; }
  return select(a, b, b > a);
}

fn sign_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  if (x > 0.0) { return 1.0; }
  if (x < 0.0) { return -1.0; }
  return x + 0.0;
}

// float16 from its bits, without the feature shader-f16.
fn float_of_half(code: u32) -> f32 {
  let sign = (code & 0x8000u) << 16u;
  let magnitude = code & 0x7fffu;
  if (magnitude >= 0x7c00u) { return bitcast<f32>(sign | 0x7f800000u | ((magnitude & 0x3ffu) << 13u)); }
  if (magnitude < 0x400u) { return bitcast<f32>(sign | bitcast<u32>(f32(magnitude) * 5.9604644775390625e-8)); }
  return bitcast<f32>(sign | ((magnitude << 13u) + 0x38000000u));
}

// Rounded to the nearest, ties to even.
fn half_of_float(x: f32) -> u32 {
  let code = bitcast<u32>(x);
  let sign = (code >> 16u) & 0x8000u;
  let magnitude = code & 0x7fffffffu;
  if (magnitude > 0x7f800000u) { return sign | 0x7e00u; }
  if (magnitude >= 0x47800000u) { return sign | 0x7c00u; }
  if (magnitude >= 0x38800000u) {
    return sign | ((magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13u) & 1u)) >> 13u);
  }
  if (magnitude < 0x33000000u) { return sign; }
  let shift = 126u - (magnitude >> 23u);
  let whole = (magnitude & 0x7fffffu) | 0x800000u;
  let kept = whole >> shift;
  let lost = whole & ((1u << shift) - 1u);
  let tie = 1u << (shift - 1u);
  return sign | (kept + select(0u, 1u, lost > tie || (lost == tie && (kept & 1u) == 1u)));
}

fn brain_of_float(x: f32) -> u32 {
  let code = bitcast<u32>(x);
  if (is_nan(x)) { return ((code >> 16u) & 0x8000u) | 0x7fc0u; }
  return (code + 0x7fffu + ((code >> 16u) & 1u)) >> 16u;
}

fn rounded_half(x: f32) -> f32 { return float_of_half(half_of_float(x)); }

fn rounded_brain(x: f32) -> f32 { return bitcast<f32>(brain_of_float(x) << 16u); }

// Decodes a float of at most 8 bits; -1 for a code that the format does not have.
fn float_of_small(code: u32, bits: u32, mantissa: u32, bias: u32, largest: u32, nan: i32, infinity: i32, one_zero: bool) -> f32 {
  let sign = 1u << (bits - 1u);
  let magnitude = code & (sign - 1u);
  let above = (code & sign) << (32u - bits);
  if (infinity >= 0 && magnitude >= u32(infinity)) {
    return bitcast<f32>(above | select(0x7fc00000u, 0x7f800000u, magnitude == u32(infinity)));
  }
  if (infinity < 0 && one_zero && code == u32(nan)) { return float_of(0x7fc00000u); }
  if (infinity < 0 && !one_zero && nan >= 0 && magnitude > largest) { return float_of(0x7fc00000u | above); }
  if (magnitude < (1u << mantissa)) {
    let step = bitcast<f32>((128u - bias - mantissa) << 23u);
    return with_sign(f32(magnitude) * step, bitcast<f32>(above | 0x3f800000u));
  }
  return bitcast<f32>(above | ((magnitude << (23u - mantissa)) + ((127u - bias) << 23u)));
}

fn small_of_float(
  x: f32, bits: u32, mantissa: u32, bias: u32, largest: u32, nan: i32, infinity: i32, one_zero: bool, overflow: u32
) -> u32 {
  let top = 1u << (bits - 1u);
  let shift = 23u - mantissa;
  let code = bitcast<u32>(x);
  let magnitude = code & 0x7fffffffu;
  let sign = (code >> (32u - bits)) & top;
  if (magnitude > 0x7f800000u) {
    if (nan < 0) { return top - sign; }
    return u32(nan) | select(sign, 0u, one_zero);
  }
  var result: u32;
  if (magnitude < ((128u - bias) << 23u)) {
    result = bitcast<u32>(abs(x) * bitcast<f32>((126u + bias + mantissa) << 23u) + 12582912.0) - 0x4b400000u;
  } else {
    result = ((magnitude + ((1u << (shift - 1u)) - 1u) + ((magnitude >> shift) & 1u)) >> shift) - ((127u - bias) << mantissa);
  }
  if (result > largest) { result = overflow; }
  if (one_zero && (result == 0u || result == u32(nan))) { return result; }
  return result | sign;
}

// 2^(code - 127); 255 is NaN.
fn float_of_exponent(code: u32) -> f32 {
  if (code == 255u) { return float_of(0x7fc00000u); }
  return bitcast<f32>(select(code << 23u, 0x400000u, code == 0u));
}

// The next larger power of two.
fn exponent_of_float(x: f32, saturate: bool) -> u32 {
  let code = bitcast<u32>(x) & 0x7fffffffu;
  let exponent = code >> 23u;
  let up = (code & 0x7fffffu) >= select(1u, 0x400001u, exponent == 0u);
  var result = exponent + select(0u, 1u, up);
  if (result > 254u) { result = select(255u, 254u, saturate); }
  if (is_nan(x) || x < 0.0 || (!saturate && code < 0x400000u)) { return 255u; }
  return result;
}

// ---- conversions between floats and integers ----------------------------------------------------------------------------

// Truncates; NaN and numbers out of range become the least integer.
fn whole_i32(x: f32) -> i32 {
  if (!is_nan(x) && x >= -2147483648.0 && x < 2147483648.0) { return i32(x); }
  return -2147483647 - 1;
}

// The integer of 64 bits nearest below |x|, for |x| < 2^64.
fn magnitude_64(x: f32) -> vec2<u32> {
  let code = bitcast<u32>(x) & 0x7fffffffu;
  let exponent = i32(code >> 23u) - 150;
  let whole = vec2<u32>((code & 0x7fffffu) | 0x800000u, 0u);
  if (exponent >= 0) { return shifted_left_64(whole, vec2<u32>(u32(exponent), 0u)); }
  return shifted_right_64(whole, vec2<u32>(u32(-exponent), 0u));
}

fn whole_i64(x: f32) -> vec2<u32> {
  if (is_nan(x) || x < -9223372036854775808.0 || x >= 9223372036854775808.0) { return vec2<u32>(0u, 0x80000000u); }
  let magnitude = magnitude_64(x);
  return select(magnitude, neg_64(magnitude), x < 0.0);
}

// A negative number wraps, and one beyond 2^64 becomes 0.
fn whole_u64(x: f32) -> vec2<u32> {
  if (!is_nan(x) && x >= 9223372036854775808.0) {
    if (x < 18446744073709551616.0) { return magnitude_64(x); }
    return vec2<u32>();
  }
  return whole_i64(x);
}

// A number of 32 bits whose value, times 2^shift, is that of 64 bits but for a sticky last bit: rounding it is rounding once.
fn float_of_u64(x: vec2<u32>) -> f32 {
  if (x.y == 0u) { return f32(x.x); }
  let shift = 32u - countLeadingZeros(x.y);
  let upper = shifted_right_64(x, vec2<u32>(shift, 0u)).x;
  let lost = shifted_left_64(x, vec2<u32>(64u - shift, 0u));
  return f32(upper | select(0u, 1u, (lost.x | lost.y) != 0u)) * bitcast<f32>((127u + shift) << 23u);
}

fn float_of_i64(x: vec2<u32>) -> f32 {
  let magnitude = float_of_u64(abs_64(x));
  return select(magnitude, -magnitude, negative_64(x));
}

// The float next to x towards zero, with its last bit set if it is inexact: rounding it to fewer bits is rounding x once.
fn odd_of_u64(x: vec2<u32>) -> f32 {
  let bits = select(64u - countLeadingZeros(x.y), 32u - countLeadingZeros(x.x), x.y == 0u);
  if (bits <= 24u) { return f32(x.x); }
  let shift = bits - 24u;
  let upper = shifted_right_64(x, vec2<u32>(shift, 0u)).x;
  let lost = shifted_left_64(x, vec2<u32>(64u - shift, 0u));
  return f32(upper | select(0u, 1u, (lost.x | lost.y) != 0u)) * bitcast<f32>((127u + shift) << 23u);
}

fn odd_of_i64(x: vec2<u32>) -> f32 {
  let magnitude = odd_of_u64(abs_64(x));
  return select(magnitude, -magnitude, negative_64(x));
}

// ---- exponentials -------------------------------------------------------------------------------------------------------
// Compilers of shaders may reassociate: no sum here is meant to round. n is the integer nearest to x / ln 2, r = x - n ln 2.

fn expm1_part(r: f32) -> f32 { return r + r * r * (EXP_0 + r * (EXP_1 + r * (EXP_2 + r * (EXP_3 + r * EXP_4)))); }

fn rest_of_ln2(x: f32, n: f32) -> f32 { return (x - n * 0.693359375) + n * 2.1219444005469057e-4; }

// exp(x) * 2^shift
fn shifted_exp(x: f32, shift: i32) -> f32 {
  if (is_nan(x)) { return x; }
  let bounded = clamp(x, -106.0, 91.0);
  let n = round(bounded * 1.4426950408889634);
  return scaled(1.0 + expm1_part(rest_of_ln2(bounded, n)), i32(n) + shift);
}

fn exp_f32(x: f32) -> f32 { return shifted_exp(x, 0); }

fn exp2_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let bounded = clamp(x, -152.0, 130.0);
  let n = round(bounded);
  return scaled(1.0 + expm1_part((bounded - n) * 0.6931471805599453), i32(n));
}

fn expm1_f32(x: f32) -> f32 {
  if (is_nan(x) || x == 0.0) { return x; }
  let bounded = clamp(x, -18.0, 89.0);
  let n = round(bounded * 1.4426950408889634);
  let part = expm1_part(rest_of_ln2(bounded, n));
  if (n == 0.0) { return part; }
  let half = bitcast<f32>(u32(i32(n) + 126) << 23u);
  return (half * part + (half - 0.5)) * 2.0;
}

fn sigmoid_f32(x: f32) -> f32 {
  let z = exp_f32(-abs(x));
  return select(1.0, z, x < 0.0) / (1.0 + z);
}

fn tanh_f32(x: f32) -> f32 {
  let a = abs(x);
  if (a < 0.55) {
    let z = a * a;
    return with_sign(a + a * z * (TANH_0 + z * (TANH_1 + z * (TANH_2 + z * (TANH_3 + z * TANH_4)))), x);
  }
  return with_sign(1.0 - 2.0 / (exp_f32(2.0 * a) + 1.0), x);
}

fn sinh_f32(x: f32) -> f32 {
  let a = abs(x);
  if (a < 1.0) {
    let z = a * a;
    return with_sign(a + a * z * (SINH_0 + z * (SINH_1 + z * (SINH_2 + z * SINH_3))), x);
  }
  let half = shifted_exp(a, -1);
  return with_sign(half - 0.25 / half, x);
}

fn cosh_f32(x: f32) -> f32 {
  let half = shifted_exp(abs(x), -1);
  return half + 0.25 / half;
}

fn erf_f32(x: f32) -> f32 {
  if (is_nan(x)) { return x; }
  let a = min(abs(x), 4.0);
  if (a < 1.0) { return with_sign(a + a * erf_part(a * a), x); }
  return with_sign(1.0 - exp_f32(-a * a) * erfc_part(a), x);
}

// ---- floats -------------------------------------------------------------------------------------------------------------

// x * 2^n for a normal x of about 1.
fn scaled(x: f32, n: i32) -> f32 {
  let half = n / 2;
  return x * bitcast<f32>(u32(half + 127) << 23u) * bitcast<f32>(u32(n - half + 127) << 23u);
}

// The exact remainder, with the sign of x: long division of the mantissas.
fn fmod_f32(x: f32, y: f32) -> f32 {
  let a = abs(x);
  let b = abs(y);
  if (is_nan(x) || is_nan(y) || is_inf(x) || b == 0.0) { return float_of(0x7fc00000u); }
  if (a < b) { return x; }
  let ca = bitcast<u32>(a);
  let cb = bitcast<u32>(b);
  let ea = max(ca >> 23u, 1u);
  let eb = max(cb >> 23u, 1u);
  var rest = (ca & 0x7fffffu) | select(0u, 0x800000u, ca >= 0x800000u);
  let divisor = (cb & 0x7fffffu) | select(0u, 0x800000u, cb >= 0x800000u);
  rest = rest % divisor;
  for (var i = ea; i > eb; i--) { rest = (rest << 1u) % divisor; }
  if (rest == 0u) { return with_sign(0.0, x); }
  let lift = countLeadingZeros(rest) - 8u;
  var code = rest;
  if (lift < eb) { code = ((rest << lift) & 0x7fffffu) | ((eb - lift) << 23u); }
  else if (eb > 1u) { code = rest << (eb - 1u); }
  return with_sign(bitcast<f32>(code), x);
}

// Python's %: the remainder has the divisor's sign.
fn mod_f32(x: f32, y: f32) -> f32 {
  let r = fmod_f32(x, y);
  if (r == 0.0) { return with_sign(r, y); }
  return select(r, r + y, (r < 0.0) != (y < 0.0));
}

// The floor of the exact quotient; floor(x / y) is wrong if x / y rounds up to an integer.
fn floordiv_f32(x: f32, y: f32) -> f32 {
  if (y == 0.0) { return x / y; }
  let r = fmod_f32(x, y);
  var q = (x - r) / y;
  if (r != 0.0 && (r < 0.0) != (y < 0.0)) { q = q - 1.0; }
  let low = floor(q);
  let whole = low + select(0.0, 1.0, q - low > 0.5);
  return select(whole, with_sign(whole, x / y), whole == 0.0);
}

// The bits of 2/pi that matter for x, times its mantissa (Payne and Hanek), for |x| >= 2^13: (quadrant, r in parts of pi/2 as a
// signed fraction of 32 bits).
const TWO_OVER_PI = array<u32, 10>(
  0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u, 0xb7246e3au,
);

struct Reduced { r: f32, quadrant: u32 }

fn reduced_far(x: f32) -> Reduced {
  let code = bitcast<u32>(x) & 0x7fffffffu;
  let whole = (code & 0x7fffffu) | 0x800000u;
  let position = (code >> 23u) - 120u; // x = whole * 2^(position - 30), so earlier bits of the table give multiples of 4
  var table = TWO_OVER_PI;
  let first = position / 32u;
  let shift = position % 32u;
  var words: array<u32, 3>;
  for (var i = 0u; i < 3u; i++) {
    let high = table[first + i] << shift;
    words[i] = high | select(table[first + i + 1u] >> ((32u - shift) & 31u), 0u, shift == 0u);
  }
  // the product modulo 2^64 in units of 2^-62: two bits of the quadrant above a fraction
  let lower = mul_32(words[2], whole);
  var product = add_64(mul_32(words[1], whole), vec2<u32>(lower.y, 0u));
  product.y = product.y + words[0] * whole;
  var quadrant = product.y >> 30u;
  var fraction = shifted_left_64(product, vec2<u32>(2u, 0u));
  let up = negative_64(fraction);
  if (up) {
    quadrant = quadrant + 1u;
    fraction = neg_64(fraction);
  }
  let size = float_of_u64(fraction) * 5.421010862427522e-20 * 1.5707963267948966;
  let r = select(size, -size, up);
  if (x < 0.0) { return Reduced(-r, (4u - (quadrant & 3u)) & 3u); }
  return Reduced(r, quadrant & 3u);
}

// x = quadrant * pi/2 + r with |r| <= pi/4. Up to 2^13, pi/2 is subtracted in parts whose multiples are exact (Cody and Waite).
fn reduced(x: f32) -> Reduced {
  if (!(abs(x) < 8192.0)) { return reduced_far(x); }
  let n = round(x * 0.6366197723675814);
  var r = x - n * 1.5703125;
  r = r - n * 4.837512969970703e-4;
  r = r - n * 7.549789948768648e-8;
  return Reduced(r, u32(i32(n)) & 3u);
}

fn sin_part(r: f32) -> f32 {
  let z = r * r;
  return r + r * z * (SIN_0 + z * (SIN_1 + z * SIN_2));
}

fn cos_part(r: f32) -> f32 {
  let z = r * r;
  return 1.0 - 0.5 * z + z * z * (COS_0 + z * (COS_1 + z * COS_2));
}

fn quarter(r: f32, quadrant: u32) -> f32 {
  let size = select(sin_part(r), cos_part(r), (quadrant & 1u) == 1u);
  return select(size, -size, (quadrant & 2u) == 2u);
}

fn sin_f32(x: f32) -> f32 {
  if (is_nan(x) || is_inf(x)) { return float_of(0x7fc00000u); }
  if (x == 0.0) { return x; }
  let part = reduced(x);
  return quarter(part.r, part.quadrant);
}

fn cos_f32(x: f32) -> f32 {
  if (is_nan(x) || is_inf(x)) { return float_of(0x7fc00000u); }
  let part = reduced(x);
  return quarter(part.r, part.quadrant + 1u);
}

fn tan_f32(x: f32) -> f32 {
  if (is_nan(x) || is_inf(x)) { return float_of(0x7fc00000u); }
  if (x == 0.0) { return x; }
  let part = reduced(x);
  let s = sin_part(part.r);
  let c = cos_part(part.r);
  return select(s / c, -c / s, (part.quadrant & 1u) == 1u);
}

// Sums and products of two floats as unevaluated sums, exact but for the last bits of their low parts.
fn two_sum(a: f32, b: f32) -> vec2<f32> {
  let s = a + b;
  let part = s - a;
  return vec2<f32>(s, (a - (s - part)) + (b - part));
}

fn upper_half(a: f32) -> f32 { return bitcast<f32>(bitcast<u32>(a) & 0xfffff000u); }

fn two_product(a: f32, b: f32) -> vec2<f32> {
  let p = a * b;
  let a1 = upper_half(a);
  let a0 = a - a1;
  let b1 = upper_half(b);
  let b0 = b - b1;
  return vec2<f32>(p, a0 * b0 - (((p - a1 * b1) - a0 * b1) - a1 * b0));
}

// exp(y log|x|) with the logarithm as an unevaluated sum of two floats, because its error is multiplied by y.
fn power_of_magnitude(a: f32, y: f32) -> f32 {
  let tiny = a < 1.1754943508222875e-38;
  let code = bitcast<u32>(select(a, a * 16777216.0, tiny)) - 0x3f3504f3u;
  let m = bitcast<f32>((code & 0x7fffffu) + 0x3f3504f3u);
  let k = f32(bitcast<i32>(code) >> 23u) - select(0.0, 24.0, tiny);
  let f = m - 1.0;
  let below = m + 1.0;
  let below_low = f - (below - 2.0);
  let s = f / below;
  let exact = two_product(s, below);
  let s_low = ((f - exact.x) - exact.y - s * below_low) / below;
  let z = s * s;
  // log m = 2 s + 2/3 s^3 + 2/5 s^5 + 2/7 s^7 + 2/9 s^9
  let cube = two_product(s, z * 0.6666666666666666);
  let tail = s * z * z * (0.4 + z * (0.2857142857142857 + z * (0.2222222222222222 + z * 0.1818181818181818)));
  let z_low = two_product(s, s).y + 2.0 * s * s_low;
  let cube_low = cube.y + s * (z_low * 0.6666666666666666 + z * (0.6666666666666666 - 0.6666666865348816)) + s_low * z * 0.6666666;
  var log = two_sum(2.0 * s, cube.x);
  log.y = log.y + (cube_low + tail + 2.0 * s_low);
  let head = two_sum(k * 0.693359375, log.x);
  let low = head.y + log.y + k * -2.1219444005469057e-4;
  log = two_sum(head.x, low);
  let bounded = clamp(y, -1.0e30, 1.0e30);
  let product = two_product(log.x, bounded);
  let t = product.x;
  if (!(abs(t) < 200.0)) { return select(0.0, float_of(0x7f800000u), t > 0.0); }
  let rest = product.y + log.y * bounded;
  let n = round(t * 1.4426950408889634);
  let r = ((t - n * 0.693359375) + n * 2.1219444005469057e-4) + rest;
  let result = 1.0 + (r + r * r * (0.5 + r * (0.16666667 + r * (0.041666667 + r * (0.008333334 + r * 0.0013888889)))));
  if (n > 128.0) { return float_of(0x7f800000u); }
  if (n < -151.0) { return 0.0; }
  return scaled(result, i32(n));
}

// C's pow, with the special cases of its annex F.
fn power_f32(x: f32, y: f32) -> f32 {
  if (bitcast<u32>(x) == 0x3f800000u || !is_nonzero(y)) { return 1.0; }
  if (is_nan(x) || is_nan(y)) { return float_of(0x7fc00000u); }
  let whole = floor(y) == y;
  if (x < 0.0 && !whole && !is_inf(x)) { return float_of(0x7fc00000u); }
  let odd = whole && floor(y * 0.5) != y * 0.5 && !is_inf(y);
  let a = abs(x);
  var result: f32;
  if (a == 1.0) { result = 1.0; }
  else if (is_inf(y)) { result = select(0.0, float_of(0x7f800000u), (a > 1.0) == (y > 0.0)); }
  else if (a == 0.0 || is_inf(a)) { result = select(0.0, float_of(0x7f800000u), (a == 0.0) == (y < 0.0)); }
  else { result = power_of_magnitude(a, y); }
  return select(result, -result, (bitcast<u32>(x) >> 31u) == 1u && odd);
}
