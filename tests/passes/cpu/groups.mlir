// passes: pack

// ----- groups of few channels share vectors: their weight stays
func.func @main(%x: tensor<2x9x9x64xf32>) -> tensor<2x9x9x64xf32> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "3", "8", "64"]} : () -> tensor<3x3x8x64xf32>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 8 : i64, layout = "last"} : (tensor<2x9x9x64xf32>, tensor<3x3x8x64xf32>) -> tensor<2x9x9x64xf32>
  "burn.return"(%0) : (tensor<2x9x9x64xf32>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: packed

// ----- groups that fill vectors are matmuls
func.func @main(%x: tensor<2x9x9x64xf32>) -> tensor<2x9x9x64xf32> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "3", "16", "64"]} : () -> tensor<3x3x16x64xf32>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 4 : i64, layout = "last"} : (tensor<2x9x9x64xf32>, tensor<3x3x16x64xf32>) -> tensor<2x9x9x64xf32>
  "burn.return"(%0) : (tensor<2x9x9x64xf32>) -> ()
}
// CHECK: burn.packed_conv
// CHECK-SAME: groups = 4

// ----- and those without depth, though they fill vectors, share the loads of their elements
func.func @main(%x: tensor<2x9x9x4xf32>) -> tensor<2x9x9x64xf32> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "3", "1", "64"]} : () -> tensor<3x3x1x64xf32>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 4 : i64, layout = "last"} : (tensor<2x9x9x4xf32>, tensor<3x3x1x64xf32>) -> tensor<2x9x9x64xf32>
  "burn.return"(%0) : (tensor<2x9x9x64xf32>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: packed

// ----- the gradient of a depthwise weight reads both operands with channels last, and nothing is packed
func.func @main(%x: tensor<2x11x11x64xf32>, %g: tensor<2x64x9x9xf32>) -> tensor<64x3x3x1x1xf32> {
  %0 = "burn.windows"(%x) {axis = 1 : i64, dilations = array<i64: 1, 1>, strides = array<i64: 1, 1>, window = array<i64: 3, 3>} : (tensor<2x11x11x64xf32>) -> tensor<2x9x9x3x3x64xf32>
  %1 = "burn.reshape"(%0) {shape = ["2", "9", "9", "3", "3", "64", "1"]} : (tensor<2x9x9x3x3x64xf32>) -> tensor<2x9x9x3x3x64x1xf32>
  %2 = "burn.reshape"(%g) {shape = ["2", "64", "1", "9", "9"]} : (tensor<2x64x9x9xf32>) -> tensor<2x64x1x9x9xf32>
  %3 = "burn.dot_general"(%1, %2) {lhs_batch = array<i64: 5>, lhs_contract = array<i64: 0, 1, 2>, rhs_batch = array<i64: 1>, rhs_contract = array<i64: 0, 3, 4>} : (tensor<2x9x9x3x3x64x1xf32>, tensor<2x64x1x9x9xf32>) -> tensor<64x3x3x1x1xf32>
  "burn.return"(%3) : (tensor<64x3x3x1x1xf32>) -> ()
}
// CHECK: burn.transpose
// CHECK: burn.barrier
// CHECK: burn.dot_general
// CHECK-SAME: rhs_batch = array<i64: 3>
// CHECK-SAME: rhs_contract = array<i64: 0, 1, 2>
// CHECK-NOT: packed
