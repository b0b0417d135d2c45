// passes: winograd{element=48 cached=20 cache=400000}

// ----- the transformed tiles of 24 channels fit in the cache: 36 * 49 * 48 elements
// rounds
func.func @main(%x: tensor<1x28x28x24xf64>) -> tensor<1x28x28x24xf64> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "24", "24"]} : () -> tensor<3x3x24x24xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x28x28x24xf64>, tensor<3x3x24x24xf64>) -> tensor<1x28x28x24xf64>
  "burn.return"(%0) : (tensor<1x28x28x24xf64>) -> ()
}
// CHECK: burn.join_tiles
// CHECK-NOT: burn.conv

// ----- where those of two images are moved through memory, it stays
func.func @main(%x: tensor<2x28x28x24xf64>) -> tensor<2x28x28x24xf64> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "24", "24"]} : () -> tensor<3x3x24x24xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<2x28x28x24xf64>, tensor<3x3x24x24xf64>) -> tensor<2x28x28x24xf64>
  "burn.return"(%0) : (tensor<2x28x28x24xf64>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.split_tiles
