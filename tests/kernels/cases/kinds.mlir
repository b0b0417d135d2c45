// passes: fuse

// ----- loop: a place outside of what is padded is not read
func.func @main(%x: tensor<?xf32, ["n"]>) -> tensor<?xf32, ["n + 3"]> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0.5 : f64} : () -> tensor<f32>
  %1 = "burn.pad"(%x, %0) {low = ["1"], high = ["2"]} : (tensor<?xf32, ["n"]>, tensor<f32>) -> tensor<?xf32, ["n + 3"]>
  %2 = "burn.exp"(%1) : (tensor<?xf32, ["n + 3"]>) -> tensor<?xf32, ["n + 3"]>
  "burn.return"(%2) : (tensor<?xf32, ["n + 3"]>) -> ()
}
// CHECK: // group 0, loop: full pad exp
// CHECK-NEXT: // from line
// CHECK-NEXT: // in 0: float32[n]
// CHECK-NEXT: // out 0: float32[n + 3]
// CHECK-NEXT: kernel {
// CHECK-NEXT:   b0: read float32 (in 0)
// CHECK-NEXT:   b1: write float32 (out 0)
// CHECK-NEXT:   parallel i0 < n + 3 {
// CHECK-NEXT:     %0 = b0[i0 - 1] : float32
// CHECK-NEXT:     %1 = 0.5 : float32
// CHECK-NEXT:     %2 = if 0 <= i0 - 1 < n then %0 else %1 : float32
// CHECK-NEXT:     %3 = exp %2 : float32
// CHECK-NEXT:     b1[i0] = %3
// CHECK-NEXT:   }
// CHECK-NEXT: }

// ----- loop: an index read from data
func.func @main(%x: tensor<7x3xf32>, %i: tensor<4xi32>) -> tensor<4x3xf32> {
  %0 = "burn.gather"(%x, %i) {axis = 0 : i64} : (tensor<7x3xf32>, tensor<4xi32>) -> tensor<4x3xf32>
  "burn.return"(%0) : (tensor<4x3xf32>) -> ()
}
// CHECK:      parallel i0 < 4, i1 < 3 {
// CHECK-NEXT:   %0 = b0[i0] : int32
// CHECK-NEXT:   %1 = convert %0 from int32 : int64
// CHECK-NEXT:   f1 = fetch %1 < 7 "line 2, column 8"
// CHECK-NEXT:   %2 = b1[3*f1 + i1] : float32
// CHECK-NEXT:   b2[3*i0 + i1] = %2

// ----- reduce: what waits for no sum is written while that is formed
func.func @main(%x: tensor<?x10xf32, ["n", "10"]>, %y: tensor<?x10xf32, ["n", "10"]>) -> (tensor<?x10xf32, ["n", "10"]>, tensor<?xf32, ["n"]>) {
  %0 = "burn.mul"(%x, %y) : (tensor<?x10xf32, ["n", "10"]>, tensor<?x10xf32, ["n", "10"]>) -> tensor<?x10xf32, ["n", "10"]>
  %1 = "burn.reduce"(%0) {kind = "sum", axes = array<i64: 1>, keepdims = false} : (tensor<?x10xf32, ["n", "10"]>) -> tensor<?xf32, ["n"]>
  "burn.return"(%0, %1) : (tensor<?x10xf32, ["n", "10"]>, tensor<?xf32, ["n"]>) -> ()
}
// CHECK:      parallel i0 < n {
// CHECK-NEXT:   for i1 < 10 {
// CHECK-NEXT:     %0 = b0[10*i0 + i1] : float32
// CHECK-NEXT:     %1 = b1[10*i0 + i1] : float32
// CHECK-NEXT:     %2 = mul %0, %1 : float32
// CHECK-NEXT:     r0 = sum %2 : float32
// CHECK-NEXT:     b2[10*i0 + i1] = %2
// CHECK-NEXT:   }
// CHECK-NEXT:   b3[i0] = r0

// ----- reduce: a stage reads what the one before it found
func.func @main(%x: tensor<?x10xf32, ["n", "10"]>) -> tensor<?x1xf32, ["n", "1"]> {
  %0 = "burn.reduce"(%x) {kind = "max", axes = array<i64: 1>, keepdims = true} : (tensor<?x10xf32, ["n", "10"]>) -> tensor<?x1xf32, ["n", "1"]>
  %1 = "burn.sub"(%x, %0) : (tensor<?x10xf32, ["n", "10"]>, tensor<?x1xf32, ["n", "1"]>) -> tensor<?x10xf32, ["n", "10"]>
  %2 = "burn.reduce"(%1) {kind = "sum", axes = array<i64: 1>, keepdims = true} : (tensor<?x10xf32, ["n", "10"]>) -> tensor<?x1xf32, ["n", "1"]>
  "burn.return"(%2) : (tensor<?x1xf32, ["n", "1"]>) -> ()
}
// CHECK:      parallel i0 < n {
// CHECK-NEXT:   for i1 < 10 {
// CHECK-NEXT:     %0 = b0[10*i0 + i1] : float32
// CHECK-NEXT:     r0 = max %0 : float32
// CHECK-NEXT:   }
// CHECK-NEXT:   for i1 < 10 {
// CHECK-NEXT:     %1 = b0[10*i0 + i1] : float32
// CHECK-NEXT:     %2 = sub %1, r0 : float32
// CHECK-NEXT:     r1 = sum %2 : float32
// CHECK-NEXT:   }
// CHECK-NEXT:   b1[i0] = r1

// ----- reduce: the place of the last largest
func.func @main(%x: tensor<3x5xf32>) -> tensor<3xi64> {
  %0 = "burn.arg_reduce"(%x) {kind = "max", axis = 1 : i64, last = true} : (tensor<3x5xf32>) -> tensor<3xi64>
  "burn.return"(%0) : (tensor<3xi64>) -> ()
}
// CHECK: r0 = argmax last %0 at i1 : float32

// ----- window: outside counts as nothing
func.func @main(%x: tensor<1x8xf32>) -> tensor<1x8xf32> {
  %0 = "burn.window_reduce"(%x) {kind = "max", window = array<i64: 1, 3>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["0", "1"], high = ["0", "1"]} : (tensor<1x8xf32>) -> tensor<1x8xf32>
  "burn.return"(%0) : (tensor<1x8xf32>) -> ()
}
// CHECK: for w1 < 3 {
// CHECK: -inf : float32
// CHECK-NEXT: if 0 <= i1 + w1 - 1 < 8 then
// CHECK-NEXT: r0 = max

// ----- contract: operands that are converted, and an epilogue
func.func @main(%x: tensor<2x6x4xf16>, %w: tensor<2x4x8xf16>, %b: tensor<8xf16>) -> tensor<2x6x8xf16> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64: 0>, rhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_contract = array<i64: 1>} : (tensor<2x6x4xf16>, tensor<2x4x8xf16>) -> tensor<2x6x8xf16>
  %1 = "burn.add"(%0, %b) : (tensor<2x6x8xf16>, tensor<8xf16>) -> tensor<2x6x8xf16>
  "burn.return"(%1) : (tensor<2x6x8xf16>) -> ()
}
// CHECK:      contract batch i0 < 2, rows i1 < 6, column i2 < 8 {
// CHECK-NEXT:   for k0 < 4 {
// CHECK-NEXT:     %0 = b0[24*i0 + 4*i1 + k0] : float16
// CHECK-NEXT:     %1 = convert %0 from float16 : float32
// CHECK-NEXT:     %2 = b1[32*i0 + i2 + 8*k0] : float16
// CHECK-NEXT:     %3 = convert %2 from float16 : float32
// CHECK-NEXT:     acc += %1 * %3 : float32
// CHECK-NEXT:   }
// CHECK-NEXT:   %4 = convert acc from float32 : float16

// ----- cumulative: every place needs the one before
func.func @main(%x: tensor<2x5xf32>) -> tensor<2x5xf32> {
  %0 = "burn.cumulative"(%x) {kind = "sum", axis = 1 : i64} : (tensor<2x5xf32>) -> tensor<2x5xf32>
  "burn.return"(%0) : (tensor<2x5xf32>) -> ()
}
// CHECK: sequential for i1 < 5 {
// CHECK: if 0 <= i1 - 1 < 5 then

// ----- scatter: places take turns
func.func @main(%x: tensor<9xf32>, %i: tensor<4xi64>, %u: tensor<4xf32>) -> tensor<9xf32> {
  %0 = "burn.scatter_elements"(%x, %i, %u) {axis = 0 : i64, reduction = "add"} : (tensor<9xf32>, tensor<4xi64>, tensor<4xf32>) -> tensor<9xf32>
  "burn.return"(%0) : (tensor<9xf32>) -> ()
}
// CHECK: parallel i0 < 9 {
// CHECK: kernel {
// CHECK: scatter for u0 < 4 {
// CHECK: f1 = fetch %0 < 9 "line 2, column 8"
// CHECK: add
// CHECK: [f1] =

// ----- attention: keys behind a query's own position are not looked at
func.func @main(%q: tensor<1x4x?x8xf32, ["1", "4", "s", "8"]>, %k: tensor<1x2x?x8xf32, ["1", "2", "t", "8"]>, %v: tensor<1x2x?x8xf32, ["1", "2", "t", "8"]>) -> tensor<1x4x?x8xf32, ["1", "4", "s", "8"]> {
  %0 = "burn.attention"(%q, %k, %v) {scale = 0.5 : f64, causal = true, segments = array<i64: 1, 1, 1, 0, 0, 0>} : (tensor<1x4x?x8xf32, ["1", "4", "s", "8"]>, tensor<1x2x?x8xf32, ["1", "2", "t", "8"]>, tensor<1x2x?x8xf32, ["1", "2", "t", "8"]>) -> tensor<1x4x?x8xf32, ["1", "4", "s", "8"]>
  "burn.return"(%0) : (tensor<1x4x?x8xf32, ["1", "4", "s", "8"]>) -> ()
}
// CHECK:      attention batch b < 1, g < 2, rows r < 2, i < s, column e < 8 {
// CHECK-NEXT:   for j < t in 0 .. min(
// CHECK-NEXT:     for k < 8 {
// CHECK:            acc +=
// CHECK:          %{{[0-9]+}} = mul acc
// CHECK:          p = softmax
// CHECK:        for j < t {
// CHECK:          acc += p *
