// passes: winograd{element=4 constant=8 largest=262144}

// ----- eight channels are enough for vectors of four floats
// rounds
func.func @main(%x: tensor<1x26x26x8xf64>) -> tensor<1x24x24x16xf64> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "8", "16"]} : () -> tensor<3x3x8x16xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["0", "0"], high = ["0", "0"], groups = 1 : i64, layout = "last"} : (tensor<1x26x26x8xf64>, tensor<3x3x8x16xf64>) -> tensor<1x24x24x16xf64>
  "burn.return"(%0) : (tensor<1x24x24x16xf64>) -> ()
}
// CHECK: burn.join_tiles
// CHECK-NOT: burn.conv

// ----- so are an image's three colours, beside a few more
// rounds
func.func @main(%x: tensor<1x28x28x3xf64>) -> tensor<1x28x28x8xf64> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "3", "8"]} : () -> tensor<3x3x3x8xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x28x28x3xf64>, tensor<3x3x3x8xf64>) -> tensor<1x28x28x8xf64>
  "burn.return"(%0) : (tensor<1x28x28x8xf64>) -> ()
}
// CHECK: burn.join_tiles
// CHECK-NOT: burn.conv

// ----- where there is one channel, it stays
func.func @main(%x: tensor<1x28x28x1xf64>) -> tensor<1x26x26x8xf64> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "1", "8"]} : () -> tensor<3x3x1x8xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["0", "0"], high = ["0", "0"], groups = 1 : i64, layout = "last"} : (tensor<1x28x28x1xf64>, tensor<3x3x1x8xf64>) -> tensor<1x26x26x8xf64>
  "burn.return"(%0) : (tensor<1x26x26x8xf64>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.split_tiles

// ----- few pixels, too, while the filter is small
// rounds
func.func @main(%x: tensor<1x7x7x64xf64>) -> tensor<1x7x7x64xf64> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "64", "64"]} : () -> tensor<3x3x64x64xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x7x7x64xf64>, tensor<3x3x64x64xf64>) -> tensor<1x7x7x64xf64>
  "burn.return"(%0) : (tensor<1x7x7x64xf64>) -> ()
}
// CHECK: burn.join_tiles
// CHECK-NOT: burn.conv

// ----- the largest filter that may grow: 85 x 85 channels at 36 points
// rounds
func.func @main(%x: tensor<1x14x14x85xf64>) -> tensor<1x14x14x85xf64> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "85", "85"]} : () -> tensor<3x3x85x85xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x14x14x85xf64>, tensor<3x3x85x85xf64>) -> tensor<1x14x14x85xf64>
  "burn.return"(%0) : (tensor<1x14x14x85xf64>) -> ()
}
// CHECK: burn.join_tiles
// CHECK-NOT: burn.conv

// ----- a filter that would be larger stays
func.func @main(%x: tensor<1x14x14x86xf64>) -> tensor<1x14x14x86xf64> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "86", "86"]} : () -> tensor<3x3x86x86xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x14x14x86xf64>, tensor<3x3x86x86xf64>) -> tensor<1x14x14x86xf64>
  "burn.return"(%0) : (tensor<1x14x14x86xf64>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.split_tiles
