// passes: layout

// ----- two convolutions in a row: one transpose before, one behind, none between
// rounds
func.func @main(%x: tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>) -> tensor<?x4x6x6xf32, ["n", "4", "6", "6"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["4", "4", "1", "1"]} : () -> tensor<4x4x1x1xf32>
  %0 = "burn.conv"(%x, %w) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 1, 1>} : (tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>, tensor<4x4x1x1xf32>) -> tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>
  %1 = "burn.tanh"(%0) : (tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>) -> tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>
  %2 = "burn.conv"(%1, %w) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 1, 1>} : (tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>, tensor<4x4x1x1xf32>) -> tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>
  "burn.return"(%2) : (tensor<?x4x6x6xf32, ["n", "4", "6", "6"]>) -> ()
}
// CHECK: burn.transpose
// CHECK: burn.conv
// CHECK-SAME: layout = "last"
// CHECK-NEXT: burn.tanh
// CHECK: burn.conv
// CHECK-SAME: layout = "last"
// CHECK: burn.transpose
// CHECK: burn.return

// ----- a reduction over space follows the transpose's axes
func.func @main(%x: tensor<2x5x6x3xf32>) -> tensor<2x3xf32> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x5x6x3xf32>) -> tensor<2x3x5x6xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 2, 3>, keepdims = false, kind = "sum"} : (tensor<2x3x5x6xf32>) -> tensor<2x3xf32>
  "burn.return"(%1) : (tensor<2x3xf32>) -> ()
}
// CHECK-NOT: burn.transpose
// CHECK: burn.reduce
// CHECK-SAME: axes = array<i64: 1, 2>

// ----- what meets a convolution's result on the way to the next is turned itself, in front of its padding
// rounds
func.func @main(%x: tensor<2x3x6x6xf32>, %y: tensor<2x4x3x3xf32>, %w: tensor<4x3x1x1xf32>, %v: tensor<5x4x1x1xf32>) -> tensor<2x5x6x6xf32> {
  %0 = "burn.conv"(%x, %w) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 1, 1>} : (tensor<2x3x6x6xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x6x6xf32>
  %1 = "burn.full"() {shape = [], dtype = "float32", value = 0.0 : f64} : () -> tensor<f32>
  %2 = "burn.pad"(%y, %1) {low = ["0", "0", "0", "0"], high = ["0", "0", "1", "1"], interior = array<i64: 0, 0, 1, 1>} : (tensor<2x4x3x3xf32>, tensor<f32>) -> tensor<2x4x6x6xf32>
  %3 = "burn.mul"(%0, %2) : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
  %4 = "burn.conv"(%3, %v) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 1, 1>} : (tensor<2x4x6x6xf32>, tensor<5x4x1x1xf32>) -> tensor<2x5x6x6xf32>
  "burn.return"(%4) : (tensor<2x5x6x6xf32>) -> ()
}
// CHECK: %[[TURNED:.+]] = "burn.transpose"(%arg1)
// CHECK-NEXT: "burn.pad"(%[[TURNED]]
// CHECK-NEXT: %[[PRODUCT:.+]] = "burn.mul"
// CHECK-NOT: burn.mul
// CHECK: "burn.conv"(%[[PRODUCT]]

// ----- where nothing turns the result back the convolution's is turned and stays
// rounds
func.func @main(%x: tensor<2x3x6x6xf32>, %y: tensor<2x4x6x6xf32>, %w: tensor<4x3x1x1xf32>) -> tensor<2x4x6x6xf32> {
  %0 = "burn.conv"(%x, %w) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 1, 1>} : (tensor<2x3x6x6xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x6x6xf32>
  %1 = "burn.mul"(%0, %y) : (tensor<2x4x6x6xf32>, tensor<2x4x6x6xf32>) -> tensor<2x4x6x6xf32>
  "burn.return"(%1) : (tensor<2x4x6x6xf32>) -> ()
}
// CHECK: "burn.mul"(%{{.+}}, %arg1)
// CHECK-NEXT: burn.return

// ----- a product that several read is turned once and stays
func.func @main(%x: tensor<7x3xf32>, %y: tensor<7x5xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>) {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<7x3xf32>, tensor<7x5xf32>) -> tensor<3x5xf32>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<3x5xf32>) -> tensor<5x3xf32>
  %2 = "burn.neg"(%1) : (tensor<5x3xf32>) -> tensor<5x3xf32>
  %3 = "burn.mul"(%1, %1) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  "burn.return"(%2, %3) : (tensor<5x3xf32>, tensor<5x3xf32>) -> ()
}
// CHECK: %[[TURNED:.+]] = "burn.transpose"
// CHECK-NEXT: "burn.neg"(%[[TURNED]])
// CHECK-NEXT: "burn.mul"(%[[TURNED]], %[[TURNED]])
// CHECK-NEXT: burn.return
// ----- a product that several read in another type is turned in its own and stays
func.func @main(%x: tensor<7x3xf16>, %y: tensor<7x5xf16>) -> (tensor<5x3xf32>, tensor<5x3xf32>) {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<7x3xf16>, tensor<7x5xf16>) -> tensor<3x5xf16>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<3x5xf16>) -> tensor<5x3xf16>
  %2 = "burn.cast"(%1) {dtype = "float32", saturate = true} : (tensor<5x3xf16>) -> tensor<5x3xf32>
  %3 = "burn.neg"(%2) : (tensor<5x3xf32>) -> tensor<5x3xf32>
  %4 = "burn.mul"(%2, %2) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  "burn.return"(%3, %4) : (tensor<5x3xf32>, tensor<5x3xf32>) -> ()
}
// CHECK: %[[TURNED:.+]] = "burn.transpose"
// CHECK-NEXT: %[[WIDE:.+]] = "burn.cast"(%[[TURNED]])
// CHECK-NEXT: "burn.neg"(%[[WIDE]])
// CHECK-NEXT: "burn.mul"(%[[WIDE]], %[[WIDE]])
// CHECK-NEXT: burn.return

// ----- a product that several read, and that meets values of its order: an input's gradient
func.func @main(%x: tensor<2x6x6x3xf16>, %w: tensor<3x5xf16>, %h: tensor<2x6x6x5xf32>) -> (tensor<2x6x6x5xf32>, tensor<2x8x8x5xf32>) {
  %0 = "burn.transpose"(%h) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x6x6x5xf32>) -> tensor<2x5x6x6xf32>
  %1 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 0>} : (tensor<2x6x6x3xf16>, tensor<3x5xf16>) -> tensor<2x6x6x5xf16>
  %2 = "burn.transpose"(%1) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x6x6x5xf16>) -> tensor<2x5x6x6xf16>
  %3 = "burn.cast"(%2) {dtype = "float32", saturate = true} : (tensor<2x5x6x6xf16>) -> tensor<2x5x6x6xf32>
  %4 = "burn.exp"(%0) : (tensor<2x5x6x6xf32>) -> tensor<2x5x6x6xf32>
  %5 = "burn.neg"(%3) : (tensor<2x5x6x6xf32>) -> tensor<2x5x6x6xf32>
  %6 = "burn.mul"(%5, %4) : (tensor<2x5x6x6xf32>, tensor<2x5x6x6xf32>) -> tensor<2x5x6x6xf32>
  %7 = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %8 = "burn.pad"(%3, %7) {high = ["0", "0", "1", "1"], interior = array<i64>, low = ["0", "0", "1", "1"]} : (tensor<2x5x6x6xf32>, tensor<f32>) -> tensor<2x5x8x8xf32>
  %9 = "burn.transpose"(%6) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x5x6x6xf32>) -> tensor<2x6x6x5xf32>
  %10 = "burn.mul"(%8, %8) : (tensor<2x5x8x8xf32>, tensor<2x5x8x8xf32>) -> tensor<2x5x8x8xf32>
  %11 = "burn.transpose"(%10) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x5x8x8xf32>) -> tensor<2x8x8x5xf32>
  "burn.return"(%9, %11) : (tensor<2x6x6x5xf32>, tensor<2x8x8x5xf32>) -> ()
}
// CHECK-NOT: burn.transpose
// CHECK: burn.return

// ----- the same where the value of its order is computed behind it, without an inverse transpose
func.func @main(%x: tensor<2x6x6x3xf16>, %w: tensor<3x5xf16>, %h: tensor<2x6x6x5xf32>) -> (tensor<2x5x6x6xf32>, tensor<2x5x6x6xf32>) {
  %1 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 3>, rhs_contract = array<i64: 0>} : (tensor<2x6x6x3xf16>, tensor<3x5xf16>) -> tensor<2x6x6x5xf16>
  %2 = "burn.transpose"(%1) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x6x6x5xf16>) -> tensor<2x5x6x6xf16>
  %3 = "burn.cast"(%2) {dtype = "float32", saturate = true} : (tensor<2x5x6x6xf16>) -> tensor<2x5x6x6xf32>
  %0 = "burn.transpose"(%h) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x6x6x5xf32>) -> tensor<2x5x6x6xf32>
  %4 = "burn.exp"(%0) : (tensor<2x5x6x6xf32>) -> tensor<2x5x6x6xf32>
  %5 = "burn.mul"(%3, %4) : (tensor<2x5x6x6xf32>, tensor<2x5x6x6xf32>) -> tensor<2x5x6x6xf32>
  %6 = "burn.add"(%3, %5) : (tensor<2x5x6x6xf32>, tensor<2x5x6x6xf32>) -> tensor<2x5x6x6xf32>
  "burn.return"(%5, %6) : (tensor<2x5x6x6xf32>, tensor<2x5x6x6xf32>) -> ()
}
// CHECK: burn.dot_general
// CHECK-NOT: burn.transpose
// CHECK: burn.cast
// CHECK: burn.mul
// CHECK: burn.add

// ----- a weight's gradient meets itself and an optimizer's state: it is turned once and stays
func.func @main(%x: tensor<7x3xf32>, %y: tensor<7x5xf32>, %m: tensor<5x3xf32>, %v: tensor<5x3xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>) {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<7x3xf32>, tensor<7x5xf32>) -> tensor<3x5xf32>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<3x5xf32>) -> tensor<5x3xf32>
  %2 = "burn.neg"(%1) : (tensor<5x3xf32>) -> tensor<5x3xf32>
  %3 = "burn.mul"(%1, %1) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  %4 = "burn.add"(%2, %m) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  %5 = "burn.add"(%3, %v) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  %6 = "burn.div"(%4, %5) : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x3xf32>
  "burn.return"(%4, %6) : (tensor<5x3xf32>, tensor<5x3xf32>) -> ()
}
// CHECK: %[[TURNED:.+]] = "burn.transpose"
// CHECK-NEXT: "burn.neg"(%[[TURNED]])
// CHECK-NEXT: "burn.mul"(%[[TURNED]], %[[TURNED]])
// CHECK-NEXT: burn.add
// CHECK-NEXT: burn.add
// CHECK-NEXT: burn.div
// CHECK-NEXT: burn.return

// ----- a norm of all channels as one group: the new axis goes with the channels, and nothing is transposed
func.func @main(%x: tensor<2x5x6x3xf32>) -> tensor<2x5x6x3xf32> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x5x6x3xf32>) -> tensor<2x3x5x6xf32>
  %1 = "burn.reshape"(%0) {shape = ["2", "1", "3", "5", "6"]} : (tensor<2x3x5x6xf32>) -> tensor<2x1x3x5x6xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 2, 3, 4>, keepdims = true, kind = "max"} : (tensor<2x1x3x5x6xf32>) -> tensor<2x1x1x1x1xf32>
  %3 = "burn.sub"(%1, %2) : (tensor<2x1x3x5x6xf32>, tensor<2x1x1x1x1xf32>) -> tensor<2x1x3x5x6xf32>
  %4 = "burn.reshape"(%3) {shape = ["2", "3", "5", "6"]} : (tensor<2x1x3x5x6xf32>) -> tensor<2x3x5x6xf32>
  %5 = "burn.transpose"(%4) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x3x5x6xf32>) -> tensor<2x5x6x3xf32>
  "burn.return"(%5) : (tensor<2x5x6x3xf32>) -> ()
}
// CHECK-NOT: burn.transpose
// CHECK: burn.reduce
// CHECK-NOT: burn.transpose
// CHECK: burn.return

// ----- new axes in front and behind
func.func @main(%x: tensor<5x3xf32>) -> tensor<1x3x1x5x1xf32> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<5x3xf32>) -> tensor<3x5xf32>
  %1 = "burn.reshape"(%0) {shape = ["1", "3", "1", "5", "1"]} : (tensor<3x5xf32>) -> tensor<1x3x1x5x1xf32>
  "burn.return"(%1) : (tensor<1x3x1x5x1xf32>) -> ()
}
// CHECK: burn.reshape
// CHECK-NEXT: burn.transpose
// CHECK-NEXT: burn.return

// ----- a gather takes the axis that its axis comes from, and nothing is transposed
func.func @main(%x: tensor<2x5x6x3xf32>, %i: tensor<4xi64>) -> tensor<2x4x6x3xf32> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x5x6x3xf32>) -> tensor<2x3x5x6xf32>
  %1 = "burn.abs"(%i) : (tensor<4xi64>) -> tensor<4xi64>
  %2 = "burn.full"() {dtype = "int64", shape = ["4"], value = 4.0 : f64} : () -> tensor<4xi64>
  %3 = "burn.min"(%1, %2) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  %4 = "burn.gather"(%0, %3) {axis = 2 : i64} : (tensor<2x3x5x6xf32>, tensor<4xi64>) -> tensor<2x3x4x6xf32>
  %5 = "burn.transpose"(%4) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<2x3x4x6xf32>) -> tensor<2x4x6x3xf32>
  "burn.return"(%5) : (tensor<2x4x6x3xf32>) -> ()
}
// CHECK-NOT: burn.transpose
// CHECK: "burn.gather"(%arg0, {{.*}}) {axis = 1 : i64}
// CHECK-NOT: burn.transpose
// CHECK: burn.return

// ----- axes of indices stand where the gathered axis stood, the others follow the transpose
func.func @main(%x: tensor<9x5x3xf32>) -> tensor<5x2x3x3xf32> {
  %i = "burn.constant"() {bits = array<i64: 0, 8, 3, 3, 1, 7>, dtype = "int64", shape = ["2", "3"], values = array<f64: 0.0, 8.0, 3.0, 3.0, 1.0, 7.0>} : () -> tensor<2x3xi64>
  %0 = "burn.transpose"(%x) {permutation = array<i64: 1, 0, 2>} : (tensor<9x5x3xf32>) -> tensor<5x9x3xf32>
  %1 = "burn.gather"(%0, %i) {axis = 1 : i64} : (tensor<5x9x3xf32>, tensor<2x3xi64>) -> tensor<5x2x3x3xf32>
  "burn.return"(%1) : (tensor<5x2x3x3xf32>) -> ()
}
// CHECK: "burn.gather"(%arg0, {{.*}}) {axis = 0 : i64}
// CHECK-NEXT: "burn.transpose"({{.*}}) {permutation = array<i64: 2, 0, 1, 3>}
// CHECK-NEXT: burn.return

// ----- one index leaves no axis
func.func @main(%x: tensor<5x7x3xf32>) -> tensor<7x5xf32> {
  %i = "burn.constant"() {bits = array<i64: 2>, dtype = "int64", shape = [], values = array<f64: 2.0>} : () -> tensor<i64>
  %0 = "burn.transpose"(%x) {permutation = array<i64: 2, 1, 0>} : (tensor<5x7x3xf32>) -> tensor<3x7x5xf32>
  %1 = "burn.gather"(%0, %i) {axis = 0 : i64} : (tensor<3x7x5xf32>, tensor<i64>) -> tensor<7x5xf32>
  "burn.return"(%1) : (tensor<7x5xf32>) -> ()
}
// CHECK: "burn.gather"(%arg0, {{.*}}) {axis = 2 : i64}
// CHECK-NEXT: "burn.transpose"({{.*}}) {permutation = array<i64: 1, 0>}

// ----- where a gather makes the tensor larger and nothing transposes it back, its operand is transposed and it stays
func.func @main(%x: tensor<2x2x2x3xf32>) -> tensor<2x3x6x2xf32> {
  %i = "burn.constant"() {bits = array<i64: 0, 0, 0, 1, 1, 1>, dtype = "int64", shape = ["6"], values = array<f64: 0.0, 0.0, 0.0, 1.0, 1.0, 1.0>} : () -> tensor<6xi64>
  %0 = "burn.transpose"(%x) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<2x2x2x3xf32>) -> tensor<2x3x2x2xf32>
  %1 = "burn.gather"(%0, %i) {axis = 2 : i64} : (tensor<2x3x2x2xf32>, tensor<6xi64>) -> tensor<2x3x6x2xf32>
  "burn.return"(%1) : (tensor<2x3x6x2xf32>) -> ()
}
// CHECK: burn.transpose
// CHECK-NEXT: burn.gather
// CHECK-NEXT: burn.return

// ----- of an image that only convolutions of one tap with strides read, the copy has the pixels that they read
// rounds
func.func @main(%x: tensor<2x3x7x8xf32>, %w: tensor<4x3x1x1xf32>) -> tensor<2x4x4x3xf32> {
  %0 = "burn.conv"(%x, %w) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 2, 3>} : (tensor<2x3x7x8xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x4x3xf32>
  "burn.return"(%0) : (tensor<2x4x4x3xf32>) -> ()
}
// CHECK: %[[READ:.+]] = "burn.slice"(%arg0)
// CHECK-SAME: steps = array<i64: 1, 1, 2, 3>
// CHECK-NEXT: "burn.transpose"(%[[READ]])
// CHECK: "burn.conv"
// CHECK-SAME: strides = array<i64: 1, 1>

// ----- other ops read the whole transposed image
// rounds
func.func @main(%x: tensor<2x3x7x8xf32>, %w: tensor<4x3x1x1xf32>, %v: tensor<5x3x3x3xf32>) -> (tensor<2x4x4x4xf32>, tensor<2x5x5x6xf32>) {
  %0 = "burn.conv"(%x, %w) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 2, 2>} : (tensor<2x3x7x8xf32>, tensor<4x3x1x1xf32>) -> tensor<2x4x4x4xf32>
  %1 = "burn.conv"(%x, %v) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 1, 1>} : (tensor<2x3x7x8xf32>, tensor<5x3x3x3xf32>) -> tensor<2x5x5x6xf32>
  "burn.return"(%0, %1) : (tensor<2x4x4x4xf32>, tensor<2x5x5x6xf32>) -> ()
}
// CHECK-NOT: burn.slice
// CHECK: layout = "last"
// CHECK-SAME: strides = array<i64: 2, 2>
