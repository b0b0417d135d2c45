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
