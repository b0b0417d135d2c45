// passes: simplify

// ----- integers that are known
func.func @main(%x: tensor<4x3xf32>) -> tensor<3xf32> {
  %a = "burn.constant"() {bits = array<i64: 7>, values = array<f64>, shape = [], dtype = "int64"} : () -> tensor<i64>
  %b = "burn.full"() {bits = 2 : i64, dtype = "int64", shape = [], value = 2.0 : f64} : () -> tensor<i64>
  %0 = "burn.sub"(%a, %b) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %1 = "burn.neg"(%0) : (tensor<i64>) -> tensor<i64>
  %2 = "burn.floordiv"(%1, %b) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %3 = "burn.lt"(%2, %a) : (tensor<i64>, tensor<i64>) -> tensor<i1>
  %4 = "burn.cast"(%3) {dtype = "int64", saturate = true} : (tensor<i1>) -> tensor<i64>
  %5 = "burn.mod"(%2, %b) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %6 = "burn.add"(%4, %5) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %7 = "burn.gather"(%x, %6) {axis = 0 : i64} : (tensor<4x3xf32>, tensor<i64>) -> tensor<3xf32>
  "burn.return"(%7) : (tensor<3xf32>) -> ()
}
// CHECK-NOT: burn.sub
// CHECK-NOT: burn.floordiv
// CHECK: "burn.slice"(%arg0) {{.*}}starts = ["2", "0"]
// CHECK-NOT: burn.add

// ----- one number written in two ways
func.func @main(%x: tensor<4xi64>) -> tensor<4xi64> {
  %a = "burn.constant"() {bits = array<i64: 7>, values = array<f64>, shape = [], dtype = "int64"} : () -> tensor<i64>
  %b = "burn.full"() {bits = 7 : i64, dtype = "int64", shape = [], value = 7.0 : f64} : () -> tensor<i64>
  %0 = "burn.mul"(%x, %a) : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  %1 = "burn.mul"(%x, %b) : (tensor<4xi64>, tensor<i64>) -> tensor<4xi64>
  %2 = "burn.sub"(%0, %1) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  "burn.return"(%2) : (tensor<4xi64>) -> ()
}
// CHECK-NOT: burn.mul
// CHECK: "burn.full"() {{.*}}bits = 0

// ----- what would wrap, or divides by 0, stays
func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  %a = "burn.full"() {bits = 2147483647 : i64, dtype = "int32", shape = [], value = 2147483647.0 : f64} : () -> tensor<i32>
  %b = "burn.full"() {bits = 1 : i64, dtype = "int32", shape = [], value = 1.0 : f64} : () -> tensor<i32>
  %c = "burn.full"() {bits = 0 : i64, dtype = "int32", shape = [], value = 0.0 : f64} : () -> tensor<i32>
  %0 = "burn.add"(%a, %b) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %1 = "burn.floordiv"(%a, %c) : (tensor<i32>, tensor<i32>) -> tensor<i32>
  %2 = "burn.add"(%x, %0) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  %3 = "burn.add"(%2, %1) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  "burn.return"(%3) : (tensor<4xi32>) -> ()
}
// CHECK: burn.floordiv
