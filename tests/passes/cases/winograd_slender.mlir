// passes: winograd{always constants=false}

// ----- where programs must be small, a constant filter stays
func.func @main(%x: tensor<?x7x9x2xf64, ["n", "7", "9", "2"]>) -> tensor<?x7x8x3xf64, ["n", "7", "8", "3"]> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "2", "3"]} : () -> tensor<3x3x2x3xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "0"], groups = 1 : i64, layout = "last"} : (tensor<?x7x9x2xf64, ["n", "7", "9", "2"]>, tensor<3x3x2x3xf64>) -> tensor<?x7x8x3xf64, ["n", "7", "8", "3"]>
  "burn.return"(%0) : (tensor<?x7x8x3xf64, ["n", "7", "8", "3"]>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.split_tiles

// ----- one that learns is evaluated whenever the program runs
// rounds
func.func @main(%x: tensor<?x7x9x2xf64, ["n", "7", "9", "2"]>, %w: tensor<3x3x2x3xf64>) -> tensor<?x7x8x3xf64, ["n", "7", "8", "3"]> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "0"], groups = 1 : i64, layout = "last"} : (tensor<?x7x9x2xf64, ["n", "7", "9", "2"]>, tensor<3x3x2x3xf64>) -> tensor<?x7x8x3xf64, ["n", "7", "8", "3"]>
  "burn.return"(%0) : (tensor<?x7x8x3xf64, ["n", "7", "8", "3"]>) -> ()
}
// CHECK: burn.split_tiles
// CHECK-SAME: size = 3
// CHECK: burn.split_tiles
// CHECK-SAME: low = array<i64: 1, 1>
// CHECK-SAME: tiles = array<i64: 2, 2>
// CHECK: burn.dot_general
// CHECK-SAME: lhs_batch = array<i64: 0>
// CHECK: burn.join_tiles
// CHECK-SAME: sizes = array<i64: 7, 8>
// CHECK-NOT: burn.conv
