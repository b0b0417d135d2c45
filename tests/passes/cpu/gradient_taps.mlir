// passes: gradient_taps

// ----- each tap reads the outputs for which it is inside
func.func @main(%g: tensor<8x64x64xf32>, %x: tensor<8x64x32xf32>) -> tensor<3x32x64xf32> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %1 = "burn.pad"(%x, %0) {low = ["0", "48", "0"], high = ["0", "48", "0"], interior = array<i64>} : (tensor<8x64x32xf32>, tensor<f32>) -> tensor<8x160x32xf32>
  %2 = "burn.windows"(%1) {axis = 1 : i64, window = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 48>} : (tensor<8x160x32xf32>) -> tensor<8x64x3x32xf32>
  %3 = "burn.dot_general"(%2, %g) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0, 1>, rhs_contract = array<i64: 0, 1>} : (tensor<8x64x3x32xf32>, tensor<8x64x64xf32>) -> tensor<3x32x64xf32>
  "burn.return"(%3) : (tensor<3x32x64xf32>) -> ()
}
// CHECK: [[G0:%.*]] = "burn.slice"(%arg0) {sizes = ["8", "16", "64"], starts = ["0", "48", "0"]
// CHECK: [[X0:%.*]] = "burn.slice"(%arg1) {sizes = ["8", "16", "32"], starts = ["0", "0", "0"]
// CHECK: [[W0:%.*]] = "burn.windows"([[X0]]) {{.*}}window = array<i64: 1>
// CHECK: [[D0:%.*]] = "burn.dot_general"([[W0]], [[G0]])
// CHECK: [[W1:%.*]] = "burn.windows"(%arg1) {{.*}}window = array<i64: 1>
// CHECK: [[D1:%.*]] = "burn.dot_general"([[W1]], %arg0)
// CHECK: [[G2:%.*]] = "burn.slice"(%arg0) {sizes = ["8", "16", "64"], starts = ["0", "0", "0"]
// CHECK: [[X2:%.*]] = "burn.slice"(%arg1) {sizes = ["8", "16", "32"], starts = ["0", "48", "0"]
// CHECK: [[D2:%.*]] = "burn.dot_general"({{%.*}}, [[G2]])
// CHECK: "burn.concat"([[D0]], [[D1]], [[D2]]) {axis = 0

// ----- a tap that only reads padding has the gradient zero
func.func @main(%g: tensor<?x64x64xf32, ["n", "64", "64"]>, %x: tensor<?x64x32xf32, ["n", "64", "32"]>) -> tensor<3x32x64xf32> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %1 = "burn.pad"(%x, %0) {low = ["0", "64", "0"], high = ["0", "64", "0"], interior = array<i64>} : (tensor<?x64x32xf32, ["n", "64", "32"]>, tensor<f32>) -> tensor<?x192x32xf32, ["n", "192", "32"]>
  %2 = "burn.windows"(%1) {axis = 1 : i64, window = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 64>} : (tensor<?x192x32xf32, ["n", "192", "32"]>) -> tensor<?x64x3x32xf32, ["n", "64", "3", "32"]>
  %3 = "burn.dot_general"(%2, %g) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0, 1>, rhs_contract = array<i64: 0, 1>} : (tensor<?x64x3x32xf32, ["n", "64", "3", "32"]>, tensor<?x64x64xf32, ["n", "64", "64"]>) -> tensor<3x32x64xf32>
  "burn.return"(%3) : (tensor<3x32x64xf32>) -> ()
}
// CHECK: [[ZERO:%.*]] = "burn.full"() {dtype = "float32", shape = ["1", "32", "64"], value = 0
// CHECK-NOT: burn.slice
// CHECK: [[D:%.*]] = "burn.dot_general"({{%.*}}, %arg0)
// CHECK-NOT: burn.slice
// CHECK: "burn.concat"([[ZERO]], [[D]], {{%.*}}) {axis = 0

// ----- padding of another value is read
func.func @main(%g: tensor<8x64x64xf32>, %x: tensor<8x64x32xf32>) -> tensor<3x32x64xf32> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 1.0 : f64} : () -> tensor<f32>
  %1 = "burn.pad"(%x, %0) {low = ["0", "48", "0"], high = ["0", "48", "0"], interior = array<i64>} : (tensor<8x64x32xf32>, tensor<f32>) -> tensor<8x160x32xf32>
  %2 = "burn.windows"(%1) {axis = 1 : i64, window = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 48>} : (tensor<8x160x32xf32>) -> tensor<8x64x3x32xf32>
  %3 = "burn.dot_general"(%2, %g) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0, 1>, rhs_contract = array<i64: 0, 1>} : (tensor<8x64x3x32xf32>, tensor<8x64x64xf32>) -> tensor<3x32x64xf32>
  "burn.return"(%3) : (tensor<3x32x64xf32>) -> ()
}
// CHECK-NOT: burn.slice
// CHECK: "burn.return"(%3)

// ----- little padding, little saved
func.func @main(%g: tensor<8x64x64xf32>, %x: tensor<8x64x32xf32>) -> tensor<3x32x64xf32> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %1 = "burn.pad"(%x, %0) {low = ["0", "1", "0"], high = ["0", "1", "0"], interior = array<i64>} : (tensor<8x64x32xf32>, tensor<f32>) -> tensor<8x66x32xf32>
  %2 = "burn.windows"(%1) {axis = 1 : i64, window = array<i64: 3>, strides = array<i64: 1>, dilations = array<i64: 1>} : (tensor<8x66x32xf32>) -> tensor<8x64x3x32xf32>
  %3 = "burn.dot_general"(%2, %g) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0, 1>, rhs_contract = array<i64: 0, 1>} : (tensor<8x64x3x32xf32>, tensor<8x64x64xf32>) -> tensor<3x32x64xf32>
  "burn.return"(%3) : (tensor<3x32x64xf32>) -> ()
}
// CHECK-NOT: burn.slice
// CHECK: "burn.return"(%3)
