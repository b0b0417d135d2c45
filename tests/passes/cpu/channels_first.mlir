// passes: channels_first

// ----- a convolution of one tap multiplies the image from the left
// rounds
func.func @main(%x: tensor<2x6x5x7xf32>, %w: tensor<8x3x1x1xf32>, %b: tensor<8x1x1xf32>) -> tensor<2x8x5x7xf32> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["0", "0"], high = ["0", "0"], groups = 2 : i64, layout = "first"} : (tensor<2x6x5x7xf32>, tensor<8x3x1x1xf32>) -> tensor<2x8x5x7xf32>
  %1 = "burn.add"(%0, %b) : (tensor<2x8x5x7xf32>, tensor<8x1x1xf32>) -> tensor<2x8x5x7xf32>
  "burn.return"(%1) : (tensor<2x8x5x7xf32>) -> ()
}
// CHECK-NOT: burn.conv
// CHECK: [[image:%.*]] = "burn.reshape"(%arg0) {shape = ["2", "2", "3", "35"]}
// CHECK: [[made:%.*]] = "burn.dot_general"({{.*}}, [[image]])
// CHECK-SAME: -> tensor<2x2x4x35xf32>
// CHECK: [[bias:%.*]] = "burn.reshape"(%arg2) {shape = ["1", "2", "4", "1"]}
// CHECK: [[sum:%.*]] = "burn.add"([[made]], [[bias]])
// CHECK: "burn.reshape"([[sum]]) {shape = ["2", "8", "5", "7"]}

// ----- one beside a convolution of several taps stays
func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<4x4x1xf32>, %v: tensor<4x4x3xf32>) -> tensor<1x4x3xf32> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1>, dilations = array<i64: 1>, low = ["0"], high = ["0"], groups = 1 : i64, layout = "first"} : (tensor<1x4x5xf32>, tensor<4x4x1xf32>) -> tensor<1x4x5xf32>
  %1 = "burn.conv"(%0, %v) {strides = array<i64: 1>, dilations = array<i64: 1>, low = ["0"], high = ["0"], groups = 1 : i64, layout = "first"} : (tensor<1x4x5xf32>, tensor<4x4x3xf32>) -> tensor<1x4x3xf32>
  "burn.return"(%1) : (tensor<1x4x3xf32>) -> ()
}
// CHECK-NOT: burn.dot_general

// ----- one whose result is transposed stays
func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<4x4x1xf32>) -> tensor<1x5x4xf32> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1>, dilations = array<i64: 1>, low = ["0"], high = ["0"], groups = 1 : i64, layout = "first"} : (tensor<1x4x5xf32>, tensor<4x4x1xf32>) -> tensor<1x4x5xf32>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 0, 2, 1>} : (tensor<1x4x5xf32>) -> tensor<1x5x4xf32>
  "burn.return"(%1) : (tensor<1x5x4xf32>) -> ()
}
// CHECK-NOT: burn.dot_general

// ----- a product of images as a weight stays
func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<1x4x1xf32>) -> tensor<1x1x5xf32> {
  %0 = "burn.conv"(%w, %w) {strides = array<i64: 1>, dilations = array<i64: 1>, low = ["0"], high = ["0"], groups = 1 : i64, layout = "first"} : (tensor<1x4x1xf32>, tensor<1x4x1xf32>) -> tensor<1x1x1xf32>
  %1 = "burn.add"(%0, %w) : (tensor<1x1x1xf32>, tensor<1x4x1xf32>) -> tensor<1x4x1xf32>
  %2 = "burn.conv"(%x, %1) {strides = array<i64: 1>, dilations = array<i64: 1>, low = ["0"], high = ["0"], groups = 1 : i64, layout = "first"} : (tensor<1x4x5xf32>, tensor<1x4x1xf32>) -> tensor<1x1x5xf32>
  "burn.return"(%2) : (tensor<1x1x5xf32>) -> ()
}
// CHECK-NOT: burn.dot_general

// ----- one with more multiplications than copies take stays
func.func @main(%x: tensor<1x256x64xf32>, %w: tensor<256x256x1xf32>) -> tensor<1x256x64xf32> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1>, dilations = array<i64: 1>, low = ["0"], high = ["0"], groups = 1 : i64, layout = "first"} : (tensor<1x256x64xf32>, tensor<256x256x1xf32>) -> tensor<1x256x64xf32>
  "burn.return"(%0) : (tensor<1x256x64xf32>) -> ()
}
// CHECK-NOT: burn.dot_general

// ----- one of half precision stays
func.func @main(%x: tensor<1x4x5xf16>, %w: tensor<4x4x1xf16>) -> tensor<1x4x5xf16> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1>, dilations = array<i64: 1>, low = ["0"], high = ["0"], groups = 1 : i64, layout = "first"} : (tensor<1x4x5xf16>, tensor<4x4x1xf16>) -> tensor<1x4x5xf16>
  "burn.return"(%0) : (tensor<1x4x5xf16>) -> ()
}
// CHECK-NOT: burn.dot_general
