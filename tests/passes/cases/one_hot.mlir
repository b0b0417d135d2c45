// passes: simplify

// ----- an embedding written as a product
func.func @main(%x: tensor<?x4xi32, ["n", "4"]>) -> tensor<?x4x5xf32, ["n", "4", "5"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "5"]} : () -> tensor<3x5xf32>
  %i = "burn.iota"() {axis = 0 : i64, dtype = "int32", shape = ["3"]} : () -> tensor<3xi32>
  %r = "burn.reshape"(%x) {shape = ["n", "4", "1"]} : (tensor<?x4xi32, ["n", "4"]>) -> tensor<?x4x1xi32, ["n", "4", "1"]>
  %e = "burn.eq"(%r, %i) : (tensor<?x4x1xi32, ["n", "4", "1"]>, tensor<3xi32>) -> tensor<?x4x3xi1, ["n", "4", "3"]>
  %f = "burn.cast"(%e) {dtype = "float32", saturate = true} : (tensor<?x4x3xi1, ["n", "4", "3"]>) -> tensor<?x4x3xf32, ["n", "4", "3"]>
  %0 = "burn.dot_general"(%f, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 2>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<?x4x3xf32, ["n", "4", "3"]>, tensor<3x5xf32>) -> tensor<?x4x5xf32, ["n", "4", "5"]>
  "burn.return"(%0) : (tensor<?x4x5xf32, ["n", "4", "5"]>) -> ()
}
// CHECK: burn.gather
// CHECK-NOT: burn.dot_general

// ----- a table that is not constant stays
func.func @main(%x: tensor<2x1xi32>, %w: tensor<3x5xf32>) -> tensor<2x5xf32> {
  %i = "burn.iota"() {axis = 0 : i64, dtype = "int32", shape = ["3"]} : () -> tensor<3xi32>
  %e = "burn.eq"(%x, %i) : (tensor<2x1xi32>, tensor<3xi32>) -> tensor<2x3xi1>
  %f = "burn.cast"(%e) {dtype = "float32", saturate = true} : (tensor<2x3xi1>) -> tensor<2x3xf32>
  %0 = "burn.dot_general"(%f, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32>
  "burn.return"(%0) : (tensor<2x5xf32>) -> ()
}
// CHECK: burn.dot_general

// ----- the sum of what stands in one place of a line
func.func @main(%i: tensor<?x1xi64, ["n", "1"]>, %v: tensor<?x1xf32, ["n", "1"]>) -> tensor<?x1xf32, ["n", "1"]> {
  %z = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %p = "burn.iota"() {axis = 1 : i64, dtype = "int64", shape = ["1", "5"]} : () -> tensor<1x5xi64>
  %e = "burn.eq"(%i, %p) : (tensor<?x1xi64, ["n", "1"]>, tensor<1x5xi64>) -> tensor<?x5xi1, ["n", "5"]>
  %s = "burn.select"(%e, %v, %z) : (tensor<?x5xi1, ["n", "5"]>, tensor<?x1xf32, ["n", "1"]>, tensor<f32>) -> tensor<?x5xf32, ["n", "5"]>
  %0 = "burn.reduce"(%s) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<?x5xf32, ["n", "5"]>) -> tensor<?x1xf32, ["n", "1"]>
  "burn.return"(%0) : (tensor<?x1xf32, ["n", "1"]>) -> ()
}
// CHECK-NOT: burn.reduce
// CHECK: burn.select
// CHECK-NOT: burn.reduce
