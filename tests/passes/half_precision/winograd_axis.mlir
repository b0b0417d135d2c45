// passes: winograd{always bfloat16 square=false}

// ----- taps of the other axis stay; each point is a group; the filter is evaluated in float32
func.func @main(%x: tensor<?x7x12x2xbf16, ["n", "7", "12", "2"]>) -> tensor<?x4x12x3xbf16, ["n", "4", "12", "3"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "3", "2", "3"]} : () -> tensor<3x3x2x3xf32>
  %h = "burn.cast"(%w) {dtype = "bfloat16"} : (tensor<3x3x2x3xf32>) -> tensor<3x3x2x3xbf16>
  %0 = "burn.conv"(%x, %h) {strides = array<i64: 2, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<?x7x12x2xbf16, ["n", "7", "12", "2"]>, tensor<3x3x2x3xbf16>) -> tensor<?x4x12x3xbf16, ["n", "4", "12", "3"]>
  "burn.return"(%0) : (tensor<?x4x12x3xbf16, ["n", "4", "12", "3"]>) -> ()
}
// CHECK: burn.weight
// CHECK-NOT: burn.cast
// CHECK: burn.split_axis
// CHECK-SAME: axis = 2
// CHECK-SAME: blocks = 3
// CHECK: burn.dot_general
// CHECK: burn.cast
// CHECK: burn.conv
// CHECK-SAME: dtype = "float32"
// CHECK-SAME: groups = 6
// CHECK-SAME: low = ["1", "0"]
// CHECK-SAME: strides = array<i64: 2, 1>
// CHECK: burn.join_axis
// CHECK-SAME: length = 12
// CHECK: burn.cast
// CHECK-SAME: dtype = "bfloat16"

// ----- the axis with fewer tiles: 2 of 8 results instead of 3 of 9; a dilated axis has phases
func.func @main(%x: tensor<1x8x9x2xbf16>) -> tensor<1x8x9x3xbf16> {
  %w = "burn.weight"() {dtype = "bfloat16", key = "w", shape = ["3", "3", "2", "3"]} : () -> tensor<3x3x2x3xbf16>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 2, 1>, low = ["2", "1"], high = ["2", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x8x9x2xbf16>, tensor<3x3x2x3xbf16>) -> tensor<1x8x9x3xbf16>
  "burn.return"(%0) : (tensor<1x8x9x3xbf16>) -> ()
}
// CHECK: burn.split_axis
// CHECK-SAME: axis = 1
// CHECK-SAME: blocks = 1
// CHECK-SAME: dilation = 2
// CHECK: burn.join_axis

// ----- strides along the only axis of three taps, pixels without pairs, and a filter that is no constant
func.func @main(%x: tensor<1x9x9x2xbf16>, %odd: tensor<1x9x9x3xbf16>, %v: tensor<3x3x2x3xbf16>) -> (tensor<1x5x9x3xbf16>, tensor<1x7x7x3xbf16>, tensor<1x7x7x3xbf16>) {
  %w = "burn.weight"() {dtype = "bfloat16", key = "w", shape = ["3", "1", "2", "3"]} : () -> tensor<3x1x2x3xbf16>
  %o = "burn.weight"() {dtype = "bfloat16", key = "o", shape = ["3", "3", "3", "3"]} : () -> tensor<3x3x3x3xbf16>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 2, 1>, dilations = array<i64: 1, 1>, low = ["1", "0"], high = ["1", "0"], groups = 1 : i64, layout = "last"} : (tensor<1x9x9x2xbf16>, tensor<3x1x2x3xbf16>) -> tensor<1x5x9x3xbf16>
  %1 = "burn.conv"(%odd, %o) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["0", "0"], high = ["0", "0"], groups = 1 : i64, layout = "last"} : (tensor<1x9x9x3xbf16>, tensor<3x3x3x3xbf16>) -> tensor<1x7x7x3xbf16>
  %2 = "burn.conv"(%x, %v) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["0", "0"], high = ["0", "0"], groups = 1 : i64, layout = "last"} : (tensor<1x9x9x2xbf16>, tensor<3x3x2x3xbf16>) -> tensor<1x7x7x3xbf16>
  "burn.return"(%0, %1, %2) : (tensor<1x5x9x3xbf16>, tensor<1x7x7x3xbf16>, tensor<1x7x7x3xbf16>) -> ()
}
// CHECK-NOT: burn.split_axis
