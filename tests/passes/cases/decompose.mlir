// passes: decompose

// ----- a composite becomes primitives, with the composites inside it
func.func @main(%x: tensor<?x10xf32, ["n", "10"]>) -> tensor<?x10xf32, ["n", "10"]> {
  %0 = "burn.log_softmax"(%x) {axis = -1 : i64} : (tensor<?x10xf32, ["n", "10"]>) -> tensor<?x10xf32, ["n", "10"]>
  "burn.return"(%0) : (tensor<?x10xf32, ["n", "10"]>) -> ()
}
// CHECK-NOT: burn.log_softmax
// CHECK: burn.reduce
// CHECK-SAME: kind = "max"
// CHECK: burn.exp
// CHECK: burn.reduce
// CHECK-SAME: kind = "sum"
// CHECK: burn.log
// CHECK: burn.return

// ----- a transposed convolution is one of x as it is for each place within a stride
// rounds
func.func @main(%x: tensor<?x2x4x4xf32, ["n", "2", "4", "4"]>, %w: tensor<2x3x3x1xf32>) -> tensor<?x3x8x8xf32, ["n", "3", "8", "8"]> {
  %0 = "burn.conv_transpose"(%x, %w) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, low = ["1", "0"], high = ["0", "0"], extra = array<i64: 0, 1>, groups = 1 : i64} : (tensor<?x2x4x4xf32, ["n", "2", "4", "4"]>, tensor<2x3x3x1xf32>) -> tensor<?x3x8x8xf32, ["n", "3", "8", "8"]>
  "burn.return"(%0) : (tensor<?x3x8x8xf32, ["n", "3", "8", "8"]>) -> ()
}
// CHECK-NOT: burn.conv_transpose
// CHECK-COUNT-2: "burn.conv"(%arg0
// CHECK-NOT: "burn.conv"
// CHECK: burn.add
