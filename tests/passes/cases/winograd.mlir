// passes: winograd{always}

// ----- a convolution becomes a product at each point; tiles that hang over are cut off
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

// ----- the gradient of a filter is summed in the Winograd domain
// rounds
func.func @main(%x: tensor<?x5x6x2xf64, ["n", "5", "6", "2"]>, %g: tensor<?x5x5x3xf64, ["n", "5", "5", "3"]>) -> tensor<3x3x2x3xf64> {
  %zero = "burn.full"() {dtype = "float64", shape = [], value = 0.0 : f64} : () -> tensor<f64>
  %p = "burn.pad"(%x, %zero) {low = ["0", "1", "0", "0"], high = ["0", "1", "1", "0"]} : (tensor<?x5x6x2xf64, ["n", "5", "6", "2"]>, tensor<f64>) -> tensor<?x7x7x2xf64, ["n", "7", "7", "2"]>
  %u = "burn.windows"(%p) {axis = 1 : i64, window = array<i64: 3, 3>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<?x7x7x2xf64, ["n", "7", "7", "2"]>) -> tensor<?x5x5x3x3x2xf64, ["n", "5", "5", "3", "3", "2"]>
  %0 = "burn.dot_general"(%u, %g) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0, 1, 2>, rhs_contract = array<i64: 0, 1, 2>} : (tensor<?x5x5x3x3x2xf64, ["n", "5", "5", "3", "3", "2"]>, tensor<?x5x5x3xf64, ["n", "5", "5", "3"]>) -> tensor<3x3x2x3xf64>
  "burn.return"(%0) : (tensor<3x3x2x3xf64>) -> ()
}
// CHECK-NOT: burn.pad
// CHECK: burn.split_tiles
// CHECK-SAME: size = 4
// CHECK: burn.split_tiles
// CHECK-SAME: low = array<i64: 1, 0>
// CHECK: burn.dot_general
// CHECK: burn.join_tiles
// CHECK-SAME: batch = "1"
// CHECK-NOT: burn.windows

// ----- images that are not padded, smaller than a tile
// rounds
func.func @main(%x: tensor<2x4x3x1xf64>, %g: tensor<2x2x1x2xf64>) -> tensor<3x3x1x2xf64> {
  %u = "burn.windows"(%x) {axis = 1 : i64, window = array<i64: 3, 3>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>} : (tensor<2x4x3x1xf64>) -> tensor<2x2x1x3x3x1xf64>
  %0 = "burn.dot_general"(%u, %g) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0, 1, 2>, rhs_contract = array<i64: 0, 1, 2>} : (tensor<2x2x1x3x3x1xf64>, tensor<2x2x1x2xf64>) -> tensor<3x3x1x2xf64>
  "burn.return"(%0) : (tensor<3x3x1x2xf64>) -> ()
}
// CHECK: burn.split_tiles
// CHECK: burn.join_tiles
// CHECK-NOT: burn.windows

// ----- a constant filter is evaluated too: `fold` does it
// rounds
func.func @main(%x: tensor<?x7x9x2xf64, ["n", "7", "9", "2"]>) -> tensor<?x7x8x3xf64, ["n", "7", "8", "3"]> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "2", "3"]} : () -> tensor<3x3x2x3xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "0"], groups = 1 : i64, layout = "last"} : (tensor<?x7x9x2xf64, ["n", "7", "9", "2"]>, tensor<3x3x2x3xf64>) -> tensor<?x7x8x3xf64, ["n", "7", "8", "3"]>
  "burn.return"(%0) : (tensor<?x7x8x3xf64, ["n", "7", "8", "3"]>) -> ()
}
// CHECK: burn.weight
// CHECK: burn.split_tiles
// CHECK-SAME: size = 3
// CHECK: burn.split_tiles
// CHECK: burn.dot_general
// CHECK: burn.join_tiles
// CHECK-NOT: burn.conv

// ----- each group has a matmul at each point
// rounds
func.func @main(%x: tensor<?x7x9x6xf64, ["n", "7", "9", "6"]>, %w: tensor<3x3x2x9xf64>) -> tensor<?x7x8x9xf64, ["n", "7", "8", "9"]> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "0"], groups = 3 : i64, layout = "last"} : (tensor<?x7x9x6xf64, ["n", "7", "9", "6"]>, tensor<3x3x2x9xf64>) -> tensor<?x7x8x9xf64, ["n", "7", "8", "9"]>
  "burn.return"(%0) : (tensor<?x7x8x9xf64, ["n", "7", "8", "9"]>) -> ()
}
// CHECK: burn.split_tiles
// CHECK-SAME: tensor<36x1x3x2x3xf64>
// CHECK: burn.split_tiles
// CHECK-SAME: tiles = array<i64: 2, 2>
// CHECK: burn.dot_general
// CHECK-SAME: lhs_batch = array<i64: 0, 2>
// CHECK: burn.transpose
// CHECK: burn.join_tiles
// CHECK-NOT: burn.conv

// ----- a stride stays
func.func @main(%x: tensor<1x7x9x2xf64>, %w: tensor<3x3x2x3xf64>) -> tensor<1x4x5x3xf64> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x7x9x2xf64>, tensor<3x3x2x3xf64>) -> tensor<1x4x5x3xf64>
  "burn.return"(%0) : (tensor<1x4x5x3xf64>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.split_tiles

// ----- pixels whose channels are apart are stored in order first
// rounds
func.func @main(%x: tensor<1x2x7x9xf64>, %w: tensor<3x3x2x3xf64>) -> tensor<1x5x7x3xf64> {
  %t = "burn.transpose"(%x) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<1x2x7x9xf64>) -> tensor<1x7x9x2xf64>
  %0 = "burn.conv"(%t, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["0", "0"], high = ["0", "0"], groups = 1 : i64, layout = "last"} : (tensor<1x7x9x2xf64>, tensor<3x3x2x3xf64>) -> tensor<1x5x7x3xf64>
  "burn.return"(%0) : (tensor<1x5x7x3xf64>) -> ()
}
// CHECK: burn.transpose
// CHECK: burn.barrier
// CHECK: burn.split_tiles
// CHECK-SAME: size = 6
