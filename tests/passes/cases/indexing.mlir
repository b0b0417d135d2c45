// passes: simplify

// ----- gather of one place
func.func @main(%x: tensor<?x7x3xf32, ["n", "7", "3"]>) -> tensor<?x3xf32, ["n", "3"]> {
  %i = "burn.full"() {bits = -2 : i64, dtype = "int64", shape = []} : () -> tensor<i64>
  %0 = "burn.gather"(%x, %i) {axis = 1 : i64} : (tensor<?x7x3xf32, ["n", "7", "3"]>, tensor<i64>) -> tensor<?x3xf32, ["n", "3"]>
  "burn.return"(%0) : (tensor<?x3xf32, ["n", "3"]>) -> ()
}
// CHECK: "burn.slice"(%arg0) {sizes = ["n", "1", "3"], starts = ["0", "5", "0"]
// CHECK-NEXT: burn.reshape
// CHECK-NOT: burn.gather

// ----- gather of evenly spaced places
func.func @main(%x: tensor<7x3xf32>) -> tensor<3x3xf32> {
  %i = "burn.constant"() {bits = array<i64: 5, 3, 1>, dtype = "int64", shape = ["3"], values = array<f64: 5.0, 3.0, 1.0>} : () -> tensor<3xi64>
  %0 = "burn.gather"(%x, %i) {axis = 0 : i64} : (tensor<7x3xf32>, tensor<3xi64>) -> tensor<3x3xf32>
  "burn.return"(%0) : (tensor<3x3xf32>) -> ()
}
// CHECK: starts = ["5", "0"], steps = array<i64: -2, 1>
// CHECK-NOT: burn.gather

// ----- gather of scattered places stays
func.func @main(%x: tensor<7x3xf32>) -> tensor<3x3xf32> {
  %i = "burn.constant"() {bits = array<i64: 5, 3, 2>, dtype = "int64", shape = ["3"], values = array<f64: 5.0, 3.0, 2.0>} : () -> tensor<3xi64>
  %0 = "burn.gather"(%x, %i) {axis = 0 : i64} : (tensor<7x3xf32>, tensor<3xi64>) -> tensor<3x3xf32>
  "burn.return"(%0) : (tensor<3x3xf32>) -> ()
}
// CHECK: burn.gather

// ----- an element of a vector of sizes
func.func @main(%x: tensor<?x?xf32, ["n", "m"]>) -> tensor<i64> {
  %s = "burn.dim_values"() {dims = ["n", "m"], scalar = false} : () -> tensor<2xi64>
  %i = "burn.full"() {bits = 1 : i64, dtype = "int64", shape = []} : () -> tensor<i64>
  %0 = "burn.gather"(%s, %i) {axis = 0 : i64} : (tensor<2xi64>, tensor<i64>) -> tensor<i64>
  "burn.return"(%0) : (tensor<i64>) -> ()
}
// CHECK: "burn.dim_values"() {dims = ["m"], scalar = true}
// CHECK-NOT: burn.gather

// ----- one element of each line is picked before others are computed
func.func @main(%x: tensor<?x5xf16, ["n", "5"]>, %r: tensor<?x1xf32, ["n", "1"]>) -> tensor<?x1xf32, ["n", "1"]> {
  %p = "burn.full"() {bits = -2 : i64, dtype = "int64", shape = ["n", "1"]} : () -> tensor<?x1xi64, ["n", "1"]>
  %c = "burn.cast"(%x) {dtype = "float32", saturate = true} : (tensor<?x5xf16, ["n", "5"]>) -> tensor<?x5xf32, ["n", "5"]>
  %s = "burn.sub"(%c, %r) : (tensor<?x5xf32, ["n", "5"]>, tensor<?x1xf32, ["n", "1"]>) -> tensor<?x5xf32, ["n", "5"]>
  %0 = "burn.gather_elements"(%s, %p) {axis = 1 : i64} : (tensor<?x5xf32, ["n", "5"]>, tensor<?x1xi64, ["n", "1"]>) -> tensor<?x1xf32, ["n", "1"]>
  "burn.return"(%0) : (tensor<?x1xf32, ["n", "1"]>) -> ()
}
// CHECK: "burn.gather_elements"(%arg0
// CHECK: "burn.cast"
// CHECK: "burn.sub"
