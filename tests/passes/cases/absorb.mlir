// passes: simplify,fold

// ----- factor and offset of channels after a convolution
// rounds
func.func @main(%x: tensor<?x3x5x5xf32, ["n", "3", "5", "5"]>) -> tensor<?x8x4x4xf32, ["n", "8", "4", "4"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["8", "3", "2", "2"]} : () -> tensor<8x3x2x2xf32>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["8", "1", "1"]} : () -> tensor<8x1x1xf32>
  %b = "burn.weight"() {dtype = "float32", key = "b", shape = ["1", "8", "1", "1"]} : () -> tensor<1x8x1x1xf32>
  %0 = "burn.conv"(%x, %w) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 1, 1>} : (tensor<?x3x5x5xf32, ["n", "3", "5", "5"]>, tensor<8x3x2x2xf32>) -> tensor<?x8x4x4xf32, ["n", "8", "4", "4"]>
  %1 = "burn.add"(%0, %b) : (tensor<?x8x4x4xf32, ["n", "8", "4", "4"]>, tensor<1x8x1x1xf32>) -> tensor<?x8x4x4xf32, ["n", "8", "4", "4"]>
  %2 = "burn.mul"(%1, %s) : (tensor<?x8x4x4xf32, ["n", "8", "4", "4"]>, tensor<8x1x1xf32>) -> tensor<?x8x4x4xf32, ["n", "8", "4", "4"]>
  "burn.return"(%2) : (tensor<?x8x4x4xf32, ["n", "8", "4", "4"]>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.mul
// CHECK: burn.return

// ----- a factor along the columns stays
func.func @main(%x: tensor<1x3x5x5xf32>) -> tensor<1x8x4x4xf32> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["8", "3", "2", "2"]} : () -> tensor<8x3x2x2xf32>
  %s = "burn.constant"() {dtype = "float32", values = array<f64: 1.0, 2.0, 3.0, 4.0>, shape = ["4"]} : () -> tensor<4xf32>
  %0 = "burn.conv"(%x, %w) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["0", "0"], layout = "first", low = ["0", "0"], strides = array<i64: 1, 1>} : (tensor<1x3x5x5xf32>, tensor<8x3x2x2xf32>) -> tensor<1x8x4x4xf32>
  %1 = "burn.mul"(%0, %s) : (tensor<1x8x4x4xf32>, tensor<4xf32>) -> tensor<1x8x4x4xf32>
  "burn.return"(%1) : (tensor<1x8x4x4xf32>) -> ()
}
// CHECK: burn.mul

// ----- batch normalisation after a grouped convolution, decomposed
// rounds
func.func @main(%x: tensor<2x4x5xf32>) -> tensor<2x6x5xf32> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["6", "2", "1"]} : () -> tensor<6x2x1xf32>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["6", "1"]} : () -> tensor<6x1xf32>
  %o = "burn.weight"() {dtype = "float32", key = "o", shape = ["6", "1"]} : () -> tensor<6x1xf32>
  %0 = "burn.conv"(%x, %w) {dilations = array<i64: 1>, groups = 2 : i64, high = ["0"], layout = "first", low = ["0"], strides = array<i64: 1>} : (tensor<2x4x5xf32>, tensor<6x2x1xf32>) -> tensor<2x6x5xf32>
  %1 = "burn.mul"(%0, %s) : (tensor<2x6x5xf32>, tensor<6x1xf32>) -> tensor<2x6x5xf32>
  %2 = "burn.add"(%1, %o) : (tensor<2x6x5xf32>, tensor<6x1xf32>) -> tensor<2x6x5xf32>
  "burn.return"(%2) : (tensor<2x6x5xf32>) -> ()
}
// CHECK: burn.conv
// CHECK-NOT: burn.mul
// CHECK: burn.return

// ----- factor after a product
// rounds
func.func @main(%x: tensor<?x3xf32, ["n", "3"]>) -> tensor<?x20xf32, ["n", "20"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["20", "3"]} : () -> tensor<20x3xf32>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["20"]} : () -> tensor<20xf32>
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<?x3xf32, ["n", "3"]>, tensor<20x3xf32>) -> tensor<?x20xf32, ["n", "20"]>
  %1 = "burn.div"(%0, %s) : (tensor<?x20xf32, ["n", "20"]>, tensor<20xf32>) -> tensor<?x20xf32, ["n", "20"]>
  "burn.return"(%1) : (tensor<?x20xf32, ["n", "20"]>) -> ()
}
// CHECK: burn.dot_general
// CHECK-NEXT: burn.return

// ----- a product that others read stays
func.func @main(%x: tensor<2x3xf32>) -> (tensor<2x20xf32>, tensor<2x20xf32>) {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["20", "3"]} : () -> tensor<20x3xf32>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["20"]} : () -> tensor<20xf32>
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<2x3xf32>, tensor<20x3xf32>) -> tensor<2x20xf32>
  %1 = "burn.mul"(%0, %s) : (tensor<2x20xf32>, tensor<20xf32>) -> tensor<2x20xf32>
  "burn.return"(%0, %1) : (tensor<2x20xf32>, tensor<2x20xf32>) -> ()
}
// CHECK: burn.mul

// ----- padding in front of a convolution
func.func @main(%x: tensor<1x3x5xf32>) -> tensor<1x8x8xf32> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["8", "3", "2"]} : () -> tensor<8x3x2xf32>
  %a = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %p = "burn.pad"(%x, %a) {high = ["0", "0", "2"], interior = array<i64>, low = ["0", "0", "1"]} : (tensor<1x3x5xf32>, tensor<f32>) -> tensor<1x3x8xf32>
  %0 = "burn.conv"(%p, %w) {dilations = array<i64: 1>, groups = 1 : i64, high = ["0"], layout = "first", low = ["1"], strides = array<i64: 1>} : (tensor<1x3x8xf32>, tensor<8x3x2xf32>) -> tensor<1x8x8xf32>
  "burn.return"(%0) : (tensor<1x8x8xf32>) -> ()
}
// CHECK: "burn.conv"(%arg0, {{.*}}high = ["2"], layout = "first", low = ["2"]
// CHECK-NOT: burn.pad

// ----- padding of channels stays
func.func @main(%x: tensor<1x2x5xf32>) -> tensor<1x8x4xf32> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["8", "3", "2"]} : () -> tensor<8x3x2xf32>
  %a = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %p = "burn.pad"(%x, %a) {high = ["0", "0", "0"], interior = array<i64>, low = ["0", "1", "0"]} : (tensor<1x2x5xf32>, tensor<f32>) -> tensor<1x3x5xf32>
  %0 = "burn.conv"(%p, %w) {dilations = array<i64: 1>, groups = 1 : i64, high = ["0"], layout = "first", low = ["0"], strides = array<i64: 1>} : (tensor<1x3x5xf32>, tensor<8x3x2xf32>) -> tensor<1x8x4xf32>
  "burn.return"(%0) : (tensor<1x8x4xf32>) -> ()
}
// CHECK: burn.pad

// ----- transposes in front of a product
// rounds
func.func @main(%x: tensor<2x3x4xf32>, %y: tensor<2x5x3xf32>) -> tensor<2x4x5xf32> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 0, 2, 1>} : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %1 = "burn.transpose"(%y) {permutation = array<i64: 0, 2, 1>} : (tensor<2x5x3xf32>) -> tensor<2x3x5xf32>
  %2 = "burn.dot_general"(%0, %1) {lhs_batch = array<i64: 0>, lhs_contract = array<i64: 2>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 1>} : (tensor<2x4x3xf32>, tensor<2x3x5xf32>) -> tensor<2x4x5xf32>
  "burn.return"(%2) : (tensor<2x4x5xf32>) -> ()
}
// CHECK: "burn.dot_general"(%arg0, %arg1) {{.*}}lhs_contract = array<i64: 1>, rhs_batch = array<i64: 0>, rhs_contract = array<i64: 2>
// CHECK-NOT: burn.transpose

// ----- a transpose of free axes stays
func.func @main(%x: tensor<2x3x4xf32>, %y: tensor<4x5xf32>) -> tensor<3x2x5xf32> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 1, 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %2 = "burn.dot_general"(%0, %y) {lhs_batch = array<i64>, lhs_contract = array<i64: 2>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<3x2x4xf32>, tensor<4x5xf32>) -> tensor<3x2x5xf32>
  "burn.return"(%2) : (tensor<3x2x5xf32>) -> ()
}
// CHECK: burn.transpose

// ----- a number in front of a product
// rounds
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x20xf32> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "20"]} : () -> tensor<3x20xf32>
  %a = "burn.full"() {dtype = "float32", shape = [], value = 3.0 : f64} : () -> tensor<f32>
  %0 = "burn.mul"(%x, %a) : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %1 = "burn.dot_general"(%0, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x20xf32>) -> tensor<2x20xf32>
  "burn.return"(%1) : (tensor<2x20xf32>) -> ()
}
// CHECK: "burn.dot_general"(%arg0
// CHECK-NOT: burn.mul

// ----- a bias between a convolution and a batch norm
// rounds
func.func @main(%x: tensor<2x4x5xf32>) -> tensor<2x6x5xf32> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["6", "2", "1"]} : () -> tensor<6x2x1xf32>
  %c = "burn.weight"() {dtype = "float32", key = "c", shape = ["6", "1"]} : () -> tensor<6x1xf32>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["6"]} : () -> tensor<6xf32>
  %o = "burn.weight"() {dtype = "float32", key = "o", shape = ["6"]} : () -> tensor<6xf32>
  %m = "burn.weight"() {dtype = "float32", key = "m", shape = ["6"]} : () -> tensor<6xf32>
  %v = "burn.full"() {dtype = "float32", shape = ["6"], value = 2.0 : f64} : () -> tensor<6xf32>
  %0 = "burn.conv"(%x, %w) {dilations = array<i64: 1>, groups = 2 : i64, high = ["0"], layout = "first", low = ["0"], strides = array<i64: 1>} : (tensor<2x4x5xf32>, tensor<6x2x1xf32>) -> tensor<2x6x5xf32>
  %1 = "burn.add"(%0, %c) : (tensor<2x6x5xf32>, tensor<6x1xf32>) -> tensor<2x6x5xf32>
  %2 = "burn.batch_norm"(%1, %s, %o, %m, %v) {epsilon = 1.0e-05 : f64} : (tensor<2x6x5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x5xf32>
  "burn.return"(%2) : (tensor<2x6x5xf32>) -> ()
}
// CHECK: %[[C:.*]] = "burn.conv"
// CHECK-NOT: burn.add
// CHECK: "burn.batch_norm"(%[[C]]

// ----- a factor that takes weights to where numbers end stays
func.func @main(%x: tensor<?x3xf32, ["n", "3"]>) -> tensor<?x20xf32, ["n", "20"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "20"]} : () -> tensor<3x20xf32>
  %c = "burn.full"() {dtype = "float32", shape = [], value = 1.0e+30 : f64} : () -> tensor<f32>
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x3xf32, ["n", "3"]>, tensor<3x20xf32>) -> tensor<?x20xf32, ["n", "20"]>
  %1 = "burn.mul"(%0, %c) : (tensor<?x20xf32, ["n", "20"]>, tensor<f32>) -> tensor<?x20xf32, ["n", "20"]>
  "burn.return"(%1) : (tensor<?x20xf32, ["n", "20"]>) -> ()
}
// CHECK: burn.mul
