// passes: winograd

// ----- many pixels, many channels
// rounds
func.func @main(%x: tensor<1x28x28x128xf64>) -> tensor<1x28x28x128xf64> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "128", "128"]} : () -> tensor<3x3x128x128xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x28x28x128xf64>, tensor<3x3x128x128xf64>) -> tensor<1x28x28x128xf64>
  "burn.return"(%0) : (tensor<1x28x28x128xf64>) -> ()
}
// CHECK: burn.join_tiles
// CHECK-NOT: burn.conv

// ----- where few pixels meet many channels, a filter that would come from memory for four tiles stays
func.func @main(%x: tensor<1x7x7x384xf64>) -> tensor<1x7x7x384xf64> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "384", "384"]} : () -> tensor<3x3x384x384xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x7x7x384xf64>, tensor<3x3x384x384xf64>) -> tensor<1x7x7x384xf64>
  "burn.return"(%0) : (tensor<1x7x7x384xf64>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.split_tiles

// ----- where the number of images may be 1, it stays
func.func @main(%x: tensor<?x7x7x384xf64, ["n", "7", "7", "384"]>) -> tensor<?x7x7x384xf64, ["n", "7", "7", "384"]> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "384", "384"]} : () -> tensor<3x3x384x384xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<?x7x7x384xf64, ["n", "7", "7", "384"]>, tensor<3x3x384x384xf64>) -> tensor<?x7x7x384xf64, ["n", "7", "7", "384"]>
  "burn.return"(%0) : (tensor<?x7x7x384xf64, ["n", "7", "7", "384"]>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.split_tiles

// ----- where tiles cost more than they spare, it stays
func.func @main(%x: tensor<1x28x28x3xf64>) -> tensor<1x28x28x8xf64> {
  %w = "burn.weight"() {dtype = "float64", key = "w", shape = ["3", "3", "3", "8"]} : () -> tensor<3x3x3x8xf64>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x28x28x3xf64>, tensor<3x3x3x8xf64>) -> tensor<1x28x28x8xf64>
  "burn.return"(%0) : (tensor<1x28x28x8xf64>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.split_tiles
