// passes: winograd{always bfloat16 axis=false}

// ----- a constant filter is evaluated in float32, and rounded at the points; sums are float32
func.func @main(%x: tensor<?x7x9x2xbf16, ["n", "7", "9", "2"]>) -> tensor<?x7x8x3xbf16, ["n", "7", "8", "3"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "3", "3", "2"]} : () -> tensor<3x3x3x2xf32>
  %h = "burn.cast"(%w) {dtype = "bfloat16"} : (tensor<3x3x3x2xf32>) -> tensor<3x3x3x2xbf16>
  %t = "burn.transpose"(%h) {permutation = array<i64: 0, 1, 3, 2>} : (tensor<3x3x3x2xbf16>) -> tensor<3x3x2x3xbf16>
  %0 = "burn.conv"(%x, %t) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "0"], groups = 1 : i64, layout = "last"} : (tensor<?x7x9x2xbf16, ["n", "7", "9", "2"]>, tensor<3x3x2x3xbf16>) -> tensor<?x7x8x3xbf16, ["n", "7", "8", "3"]>
  "burn.return"(%0) : (tensor<?x7x8x3xbf16, ["n", "7", "8", "3"]>) -> ()
}
// CHECK: burn.weight
// CHECK-NOT: burn.cast
// CHECK: burn.transpose
// CHECK: burn.split_tiles
// CHECK-SAME: size = 3
// CHECK: burn.cast
// CHECK: burn.split_tiles
// CHECK-SAME: size = 4
// CHECK-SAME: step = 2
// CHECK-SAME: tiles = array<i64: 4, 4>
// CHECK: burn.dot_general
// CHECK-SAME: dtype = "float32"
// CHECK: burn.join_tiles
// CHECK-SAME: size = 2
// CHECK: burn.cast
// CHECK-SAME: dtype = "bfloat16"
// CHECK-NOT: burn.conv

// ----- points of 64 tiles of 32 channels would be 4096 bytes apart
func.func @main(%x: tensor<1x16x16x32xbf16>) -> tensor<1x16x16x3xbf16> {
  %w = "burn.weight"() {dtype = "bfloat16", key = "w", shape = ["3", "3", "32", "3"]} : () -> tensor<3x3x32x3xbf16>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x16x16x32xbf16>, tensor<3x3x32x3xbf16>) -> tensor<1x16x16x3xbf16>
  "burn.return"(%0) : (tensor<1x16x16x3xbf16>) -> ()
}
// CHECK: burn.split_tiles
// CHECK: burn.split_tiles
// CHECK-SAME: spare = 1
// CHECK-SAME: tensor<16x65x32xbf16>
// CHECK: burn.join_tiles

// ----- pixels without pairs stay
func.func @main(%x: tensor<1x7x9x3xbf16>) -> tensor<1x5x7x3xbf16> {
  %w = "burn.weight"() {dtype = "bfloat16", key = "w", shape = ["3", "3", "3", "3"]} : () -> tensor<3x3x3x3xbf16>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["0", "0"], high = ["0", "0"], groups = 1 : i64, layout = "last"} : (tensor<1x7x9x3xbf16>, tensor<3x3x3x3xbf16>) -> tensor<1x5x7x3xbf16>
  "burn.return"(%0) : (tensor<1x5x7x3xbf16>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.split_tiles

// ----- a filter that is no constant stays
func.func @main(%x: tensor<1x7x9x2xbf16>, %w: tensor<3x3x2x3xbf16>) -> tensor<1x5x7x3xbf16> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["0", "0"], high = ["0", "0"], groups = 1 : i64, layout = "last"} : (tensor<1x7x9x2xbf16>, tensor<3x3x2x3xbf16>) -> tensor<1x5x7x3xbf16>
  "burn.return"(%0) : (tensor<1x5x7x3xbf16>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.split_tiles
