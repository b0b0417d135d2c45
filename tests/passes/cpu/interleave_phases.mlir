// passes: interleave_phases

// ----- phases with as many taps have one convolution, and those without taps are padding
// rounds
func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<4x2x3xf32>) -> tensor<1x2x19xf32> {
  %0 = "burn.conv_transpose"(%x, %w) {strides = array<i64: 4>, dilations = array<i64: 1>, low = ["0"], high = ["0"], extra = array<i64: 0>, groups = 1 : i64} : (tensor<1x4x5xf32>, tensor<4x2x3xf32>) -> tensor<1x2x19xf32>
  "burn.return"(%0) : (tensor<1x2x19xf32>) -> ()
}
// CHECK: [[three:%.*]] = "burn.conv"(%arg0
// CHECK-SAME: -> tensor<1x6x5xf32>
// CHECK-NOT: burn.concat
// CHECK: burn.transpose
// CHECK-SAME: -> tensor<1x1x2x5x3xf32>
// CHECK: burn.pad
// CHECK-SAME: -> tensor<1x1x2x5x4xf32>
// CHECK: burn.slice
// CHECK-NOT: burn.add

// ----- one without overlap stays
func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<4x2x3xf32>) -> tensor<1x2x15xf32> {
  %0 = "burn.conv_transpose"(%x, %w) {strides = array<i64: 3>, dilations = array<i64: 1>, low = ["0"], high = ["0"], extra = array<i64: 0>, groups = 1 : i64} : (tensor<1x4x5xf32>, tensor<4x2x3xf32>) -> tensor<1x2x15xf32>
  "burn.return"(%0) : (tensor<1x2x15xf32>) -> ()
}
// CHECK-NOT: burn.conv"
// CHECK: burn.conv_transpose

// ----- one with more phases than convolutions may be stays
func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<4x1x2xf32>) -> tensor<1x2x70xf32> {
  %0 = "burn.conv_transpose"(%x, %w) {strides = array<i64: 17>, dilations = array<i64: 1>, low = ["0"], high = ["0"], extra = array<i64: 0>, groups = 2 : i64} : (tensor<1x4x5xf32>, tensor<4x1x2xf32>) -> tensor<1x2x70xf32>
  "burn.return"(%0) : (tensor<1x2x70xf32>) -> ()
}
// CHECK-NOT: burn.conv"
// CHECK: burn.conv_transpose
