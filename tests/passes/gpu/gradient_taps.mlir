// passes: crop_taps,gradient_taps

// ----- further launches cost more than the taps save
func.func @main(%g: tensor<8x64x64xf32>, %x: tensor<8x64x32xf32>) -> tensor<3x32x64xf32> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %1 = "burn.pad"(%x, %0) {low = ["0", "48", "0"], high = ["0", "48", "0"], interior = array<i64>} : (tensor<8x64x32xf32>, tensor<f32>) -> tensor<8x160x32xf32>
  %2 = "burn.windows"(%1) {axis = 1 : i64, window = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 48>} : (tensor<8x160x32xf32>) -> tensor<8x64x3x32xf32>
  %3 = "burn.dot_general"(%2, %g) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0, 1>, rhs_contract = array<i64: 0, 1>} : (tensor<8x64x3x32xf32>, tensor<8x64x64xf32>) -> tensor<3x32x64xf32>
  "burn.return"(%3) : (tensor<3x32x64xf32>) -> ()
}
// CHECK-NOT: burn.slice
// CHECK: "burn.return"(%3)
