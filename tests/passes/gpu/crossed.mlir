// passes: fuse

// ----- the image of a depthwise weight gradient is transposed in memory: channels are contiguous in the other operand
func.func @main(%x: tensor<4x64x24x24xf16>, %g: tensor<4x24x24x64xf16>) -> tensor<64x3x3xf16> {
  %0 = "burn.full"() {dtype = "float16", shape = [], value = 0.0 : f64} : () -> tensor<f16>
  %1 = "burn.pad"(%x, %0) {low = ["0", "0", "1", "1"], high = ["0", "0", "1", "1"], interior = array<i64>} : (tensor<4x64x24x24xf16>, tensor<f16>) -> tensor<4x64x26x26xf16>
  %2 = "burn.transpose"(%1) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<4x64x26x26xf16>) -> tensor<4x26x26x64xf16>
  %3 = "burn.windows"(%2) {axis = 1 : i64, window = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>} : (tensor<4x26x26x64xf16>) -> tensor<4x24x3x26x64xf16>
  %4 = "burn.windows"(%3) {axis = 3 : i64, window = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>} : (tensor<4x24x3x26x64xf16>) -> tensor<4x24x3x24x3x64xf16>
  %5 = "burn.dot_general"(%4, %g) {lhs_batch = array<i64: 5>, rhs_batch = array<i64: 3>, lhs_contract = array<i64: 0, 1, 3>, rhs_contract = array<i64: 0, 1, 2>} : (tensor<4x24x3x24x3x64xf16>, tensor<4x24x24x64xf16>) -> tensor<64x3x3xf16>
  "burn.return"(%5) : (tensor<64x3x3xf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.pad
// CHECK: burn.transpose
// CHECK: burn.group
// CHECK-NOT: burn.pad
// CHECK: burn.windows
// CHECK: burn.dot_general

// ----- with channels contiguous in no operand, one kernel pads and reads both as they are
func.func @main(%x: tensor<4x64x24x24xf16>, %y: tensor<4x64x24x24xf16>) -> tensor<64x3x3xf16> {
  %0 = "burn.full"() {dtype = "float16", shape = [], value = 0.0 : f64} : () -> tensor<f16>
  %1 = "burn.pad"(%x, %0) {low = ["0", "0", "1", "1"], high = ["0", "0", "1", "1"], interior = array<i64>} : (tensor<4x64x24x24xf16>, tensor<f16>) -> tensor<4x64x26x26xf16>
  %2 = "burn.transpose"(%1) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<4x64x26x26xf16>) -> tensor<4x26x26x64xf16>
  %g = "burn.transpose"(%y) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<4x64x24x24xf16>) -> tensor<4x24x24x64xf16>
  %3 = "burn.windows"(%2) {axis = 1 : i64, window = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>} : (tensor<4x26x26x64xf16>) -> tensor<4x24x3x26x64xf16>
  %4 = "burn.windows"(%3) {axis = 3 : i64, window = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>} : (tensor<4x24x3x26x64xf16>) -> tensor<4x24x3x24x3x64xf16>
  %5 = "burn.dot_general"(%4, %g) {lhs_batch = array<i64: 5>, rhs_batch = array<i64: 3>, lhs_contract = array<i64: 0, 1, 3>, rhs_contract = array<i64: 0, 1, 2>} : (tensor<4x24x3x24x3x64xf16>, tensor<4x24x24x64xf16>) -> tensor<64x3x3xf16>
  "burn.return"(%5) : (tensor<64x3x3xf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.pad
// CHECK: burn.dot_general
// CHECK-NOT: burn.group

// ----- a transposed gradient is stored with contiguous channels, and the image is padded in the kernel
func.func @main(%x: tensor<4x24x24x64xf16>, %y: tensor<4x64x24x24xf16>) -> tensor<64x3x3xf16> {
  %0 = "burn.full"() {dtype = "float16", shape = [], value = 0.0 : f64} : () -> tensor<f16>
  %1 = "burn.pad"(%x, %0) {low = ["0", "1", "1", "0"], high = ["0", "1", "1", "0"], interior = array<i64>} : (tensor<4x24x24x64xf16>, tensor<f16>) -> tensor<4x26x26x64xf16>
  %g = "burn.transpose"(%y) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<4x64x24x24xf16>) -> tensor<4x24x24x64xf16>
  %3 = "burn.windows"(%1) {axis = 1 : i64, window = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>} : (tensor<4x26x26x64xf16>) -> tensor<4x24x3x26x64xf16>
  %4 = "burn.windows"(%3) {axis = 3 : i64, window = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>} : (tensor<4x24x3x26x64xf16>) -> tensor<4x24x3x24x3x64xf16>
  %5 = "burn.dot_general"(%4, %g) {lhs_batch = array<i64: 5>, rhs_batch = array<i64: 3>, lhs_contract = array<i64: 0, 1, 3>, rhs_contract = array<i64: 0, 1, 2>} : (tensor<4x24x3x24x3x64xf16>, tensor<4x24x24x64xf16>) -> tensor<64x3x3xf16>
  "burn.return"(%5) : (tensor<64x3x3xf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.transpose
// CHECK: burn.group
// CHECK: burn.pad
// CHECK: burn.dot_general
