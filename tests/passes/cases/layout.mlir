// passes: layout

// ----- two convolutions in a row: one transpose before, one behind, none between
// rounds
func.func @main(%x: tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>) -> tensor<?x4x6x6xf32, ["n", "4", "6", "6"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["4", "4", "1", "1"]} : () -> tensor<4x4x1x1xf32>
  %0 = "burn.conv"(%x, %w) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 1, 1>} : (tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>, tensor<4x4x1x1xf32>) -> tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>
  %1 = "burn.tanh"(%0) : (tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>) -> tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>
  %2 = "burn.conv"(%1, %w) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 1, 1>} : (tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>, tensor<4x4x1x1xf32>) -> tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>
  "burn.return"(%2) : (tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>) -> ()
}
// CHECK: burn.transpose
// CHECK: burn.conv
// CHECK-SAME: layout = "last"
// CHECK-NEXT: burn.tanh
// CHECK: burn.conv
// CHECK-SAME: layout = "last"
// CHECK: burn.transpose
// CHECK: burn.return

// ----- a reduction over space follows the transpose's axes
func.func @main(%x: tensor<2x5x6x3xf32>) -> tensor<2x3xf32> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x5x6x3xf32>) -> tensor<2x3x5x6xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 2, 3>, keepdims = false, kind = "sum"} : (tensor<2x3x5x6xf32>) -> tensor<2x3xf32>
  "burn.return"(%1) : (tensor<2x3xf32>) -> ()
}
// CHECK-NOT: burn.transpose
// CHECK: burn.reduce
// CHECK-SAME: axes = array<i64: 1, 2>
