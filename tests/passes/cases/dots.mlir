// passes: simplify

// ----- the weight's gradient of a depthwise 1x1 convolution, narrow floats in float32
func.func @main(%x: tensor<2x7x1x5x1xbf16>, %g: tensor<2x7x5x1xbf16>) -> tensor<5x1x1x1xbf16> {
  %0 = "burn.dot_general"(%x, %g) {lhs_batch = array<i64: 3>, lhs_contract = array<i64: 0, 1>, rhs_batch = array<i64: 2>, rhs_contract = array<i64: 0, 1>} : (tensor<2x7x1x5x1xbf16>, tensor<2x7x5x1xbf16>) -> tensor<5x1x1x1xbf16>
  "burn.return"(%0) : (tensor<5x1x1x1xbf16>) -> ()
}
// CHECK-NOT: burn.dot_general
// CHECK: "burn.mul"
// CHECK: "burn.reduce"({{.*}}) {axes = array<i64: 0, 1>, {{.*}} : (tensor<2x7x5xf32>)
// CHECK: "burn.cast"

// ----- batch axes in another order
func.func @main(%x: tensor<?x3x5xf32, ["n", "3", "5"]>, %y: tensor<3x?x5xf32, ["3", "n", "5"]>) -> tensor<5x3xf32> {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64: 2, 1>, lhs_contract = array<i64: 0>, rhs_batch = array<i64: 2, 0>, rhs_contract = array<i64: 1>} : (tensor<?x3x5xf32, ["n", "3", "5"]>, tensor<3x?x5xf32, ["3", "n", "5"]>) -> tensor<5x3xf32>
  "burn.return"(%0) : (tensor<5x3xf32>) -> ()
}
// CHECK-NOT: burn.dot_general
// CHECK: "burn.reduce"({{.*}}) {axes = array<i64: 0>

// ----- a contraction with a free axis, stays
func.func @main(%x: tensor<7x2x5xf32>, %y: tensor<7x5xf32>) -> tensor<5x2xf32> {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64: 2>, lhs_contract = array<i64: 0>, rhs_batch = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<7x2x5xf32>, tensor<7x5xf32>) -> tensor<5x2xf32>
  "burn.return"(%0) : (tensor<5x2xf32>) -> ()
}
// CHECK: burn.dot_general

// ----- dot products of rows, whose elements are adjacent, stays
func.func @main(%x: tensor<5x7xf32>, %y: tensor<5x7xf32>) -> tensor<5xf32> {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 1>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 1>} : (tensor<5x7xf32>, tensor<5x7xf32>) -> tensor<5xf32>
  "burn.return"(%0) : (tensor<5xf32>) -> ()
}
// CHECK: burn.dot_general

// ----- integers, which have their own sums, stays
func.func @main(%x: tensor<7x5xi8>, %y: tensor<7x5xi8>) -> tensor<5xi32> {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64: 1>, lhs_contract = array<i64: 0>, rhs_batch = array<i64: 1>, rhs_contract = array<i64: 0>, dtype = "int32"} : (tensor<7x5xi8>, tensor<7x5xi8>) -> tensor<5xi32>
  "burn.return"(%0) : (tensor<5xi32>) -> ()
}
// CHECK: burn.dot_general

// ----- the weight's gradient of a 1x1 convolution, in the weight's layout
func.func @main(%x: tensor<2x7x1x1x5xbf16>, %g: tensor<2x7x3xbf16>) -> tensor<3x5x1x1xbf16> {
  %0 = "burn.dot_general"(%x, %g) {lhs_batch = array<i64>, lhs_contract = array<i64: 0, 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0, 1>} : (tensor<2x7x1x1x5xbf16>, tensor<2x7x3xbf16>) -> tensor<1x1x5x3xbf16>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 3, 2, 0, 1>} : (tensor<1x1x5x3xbf16>) -> tensor<3x5x1x1xbf16>
  "burn.return"(%1) : (tensor<3x5x1x1xbf16>) -> ()
}
// CHECK:     "burn.dot_general"(%arg1, {{.*}}tensor<3x
// CHECK-NOT: burn.transpose

// ----- taps between the two free axes, stays
func.func @main(%x: tensor<7x3x5xf32>, %g: tensor<7x2xf32>) -> tensor<2x5x3xf32> {
  %0 = "burn.dot_general"(%x, %g) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<7x3x5xf32>, tensor<7x2xf32>) -> tensor<3x5x2xf32>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 2, 1, 0>} : (tensor<3x5x2xf32>) -> tensor<2x5x3xf32>
  "burn.return"(%1) : (tensor<2x5x3xf32>) -> ()
}
// CHECK: "burn.dot_general"(%arg0, %arg1)
// CHECK: burn.transpose
