// passes: simplify,fold

// ----- a factor behind views goes into the weight
// rounds
func.func @main(%x: tensor<?x3xf32, ["n", "3"]>) -> tensor<4x?x5xf32, ["4", "n", "5"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "20"]} : () -> tensor<3x20xf32>
  %b = "burn.weight"() {dtype = "float32", key = "b", shape = ["20"]} : () -> tensor<20xf32>
  %s = "burn.full"() {dtype = "float32", shape = [], value = 3.0 : f64} : () -> tensor<f32>
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<?x3xf32, ["n", "3"]>, tensor<3x20xf32>) -> tensor<?x20xf32, ["n", "20"]>
  %1 = "burn.add"(%0, %b) : (tensor<?x20xf32, ["n", "20"]>, tensor<20xf32>) -> tensor<?x20xf32, ["n", "20"]>
  %2 = "burn.reshape"(%1) {shape = ["n", "4", "5"]} : (tensor<?x20xf32, ["n", "20"]>) -> tensor<?x4x5xf32, ["n", "4", "5"]>
  %3 = "burn.transpose"(%2) {permutation = array<i64: 1, 0, 2>} : (tensor<?x4x5xf32, ["n", "4", "5"]>) -> tensor<4x?x5xf32, ["4", "n", "5"]>
  %4 = "burn.mul"(%3, %s) : (tensor<4x?x5xf32, ["4", "n", "5"]>, tensor<f32>) -> tensor<4x?x5xf32, ["4", "n", "5"]>
  "burn.return"(%4) : (tensor<4x?x5xf32, ["4", "n", "5"]>) -> ()
}
// CHECK: burn.transpose
// CHECK-NEXT: burn.return

// ----- heads merged around a transpose
func.func @main(%x: tensor<?x4x?x5xf32, ["b", "4", "s", "5"]>) -> tensor<?x4x5x?xf32, ["b", "4", "5", "s"]> {
  %0 = "burn.reshape"(%x) {shape = ["4*b", "s", "5"]} : (tensor<?x4x?x5xf32, ["b", "4", "s", "5"]>) -> tensor<?x?x5xf32, ["4*b", "s", "5"]>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 0, 2, 1>} : (tensor<?x?x5xf32, ["4*b", "s", "5"]>) -> tensor<?x5x?xf32, ["4*b", "5", "s"]>
  %2 = "burn.reshape"(%1) {shape = ["b", "4", "5", "s"]} : (tensor<?x5x?xf32, ["4*b", "5", "s"]>) -> tensor<?x4x5x?xf32, ["b", "4", "5", "s"]>
  "burn.return"(%2) : (tensor<?x4x5x?xf32, ["b", "4", "5", "s"]>) -> ()
}
// CHECK: "burn.transpose"(%arg0) {permutation = array<i64: 0, 1, 3, 2>}
// CHECK-NEXT: burn.return

// ----- heads split otherwise than they were merged stays
func.func @main(%x: tensor<6x4x3x5xf32>) -> tensor<4x6x5x3xf32> {
  %0 = "burn.reshape"(%x) {shape = ["24", "3", "5"]} : (tensor<6x4x3x5xf32>) -> tensor<24x3x5xf32>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 0, 2, 1>} : (tensor<24x3x5xf32>) -> tensor<24x5x3xf32>
  %2 = "burn.reshape"(%1) {shape = ["4", "6", "5", "3"]} : (tensor<24x5x3xf32>) -> tensor<4x6x5x3xf32>
  "burn.return"(%2) : (tensor<4x6x5x3xf32>) -> ()
}
// CHECK-COUNT-2: burn.reshape

// ----- rows split behind what tells them from their numbers
func.func @main(%x: tensor<?x?x1xi64, ["b", "s", "1"]>) -> tensor<?x?x9xi1, ["b", "s", "9"]> {
  %i = "burn.iota"() {axis = 1 : i64, dtype = "int64", shape = ["1", "9"]} : () -> tensor<1x9xi64>
  %m = "burn.reshape"(%x) {shape = ["b*s", "1"]} : (tensor<?x?x1xi64, ["b", "s", "1"]>) -> tensor<?x1xi64, ["b*s", "1"]>
  %0 = "burn.eq"(%m, %i) : (tensor<?x1xi64, ["b*s", "1"]>, tensor<1x9xi64>) -> tensor<?x9xi1, ["b*s", "9"]>
  %1 = "burn.reshape"(%0) {shape = ["b", "s", "9"]} : (tensor<?x9xi1, ["b*s", "9"]>) -> tensor<?x?x9xi1, ["b", "s", "9"]>
  "burn.return"(%1) : (tensor<?x?x9xi1, ["b", "s", "9"]>) -> ()
}
// CHECK: burn.iota
// CHECK-NEXT: "burn.eq"(%arg0
// CHECK-NEXT: burn.return

// ----- rows merged around a product
// rounds
func.func @main(%x: tensor<?x?x3xf32, ["b", "s", "3"]>) -> tensor<?x?x20xf32, ["b", "s", "20"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "20"]} : () -> tensor<3x20xf32>
  %b = "burn.weight"() {dtype = "float32", key = "b", shape = ["20"]} : () -> tensor<20xf32>
  %m = "burn.reshape"(%x) {shape = ["b*s", "3"]} : (tensor<?x?x3xf32, ["b", "s", "3"]>) -> tensor<?x3xf32, ["b*s", "3"]>
  %0 = "burn.dot_general"(%m, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<?x3xf32, ["b*s", "3"]>, tensor<3x20xf32>) -> tensor<?x20xf32, ["b*s", "20"]>
  %1 = "burn.add"(%0, %b) : (tensor<?x20xf32, ["b*s", "20"]>, tensor<20xf32>) -> tensor<?x20xf32, ["b*s", "20"]>
  %2 = "burn.reshape"(%1) {shape = ["b", "s", "20"]} : (tensor<?x20xf32, ["b*s", "20"]>) -> tensor<?x?x20xf32, ["b", "s", "20"]>
  "burn.return"(%2) : (tensor<?x?x20xf32, ["b", "s", "20"]>) -> ()
}
// CHECK: "burn.dot_general"(%arg0
// CHECK-NOT: burn.reshape

// ----- a scalar has no rows to split: they are the other side's
func.func @main(%x: tensor<f32>, %y: tensor<6xf32>) -> tensor<2x3xf32> {
  %a = "burn.neg"(%x) : (tensor<f32>) -> tensor<f32>
  %b = "burn.neg"(%a) : (tensor<f32>) -> tensor<f32>
  %0 = "burn.dot_general"(%b, %y) {lhs_batch = array<i64>, lhs_contract = array<i64>, rhs_batch = array<i64>, rhs_contract = array<i64>} : (tensor<f32>, tensor<6xf32>) -> tensor<6xf32>
  %1 = "burn.reshape"(%0) {shape = ["2", "3"]} : (tensor<6xf32>) -> tensor<2x3xf32>
  "burn.return"(%1) : (tensor<2x3xf32>) -> ()
}
// CHECK-NOT: burn.neg
// CHECK: burn.reshape

// ----- a narrowing cast goes before a reshape, where its operand is computed
func.func @main(%x: tensor<1x8x64xf32>) -> tensor<1x2x4x64xf16> {
  %0 = "burn.neg"(%x) : (tensor<1x8x64xf32>) -> tensor<1x8x64xf32>
  %1 = "burn.reshape"(%0) {shape = ["1", "2", "4", "64"]} : (tensor<1x8x64xf32>) -> tensor<1x2x4x64xf32>
  %2 = "burn.cast"(%1) {dtype = "float16", saturate = true} : (tensor<1x2x4x64xf32>) -> tensor<1x2x4x64xf16>
  "burn.return"(%2) : (tensor<1x2x4x64xf16>) -> ()
}
// CHECK: burn.neg
// CHECK-NEXT: "burn.cast"
// CHECK-NEXT: "burn.reshape"
// CHECK-NEXT: burn.return

// ----- a widening one stays
func.func @main(%x: tensor<1x8x64xf16>) -> tensor<1x2x4x64xf32> {
  %0 = "burn.neg"(%x) : (tensor<1x8x64xf16>) -> tensor<1x8x64xf16>
  %1 = "burn.reshape"(%0) {shape = ["1", "2", "4", "64"]} : (tensor<1x8x64xf16>) -> tensor<1x2x4x64xf16>
  %2 = "burn.cast"(%1) {dtype = "float32", saturate = true} : (tensor<1x2x4x64xf16>) -> tensor<1x2x4x64xf32>
  "burn.return"(%2) : (tensor<1x2x4x64xf32>) -> ()
}
// CHECK: burn.neg
// CHECK-NEXT: "burn.reshape"
// CHECK-NEXT: "burn.cast"
