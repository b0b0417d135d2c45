// passes: align{least=3}

// ----- rows that products give and take become longer, and nothing sees what is behind them
// rounds
func.func @main(%x: tensor<4x8xbf16>, %w: tensor<7x8xbf16>, %b: tensor<7xbf16>, %t: tensor<4x1xi64>) -> (tensor<4x8xbf16>, tensor<7x8xbf16>, tensor<1x7xbf16>, tensor<4x1xf32>, tensor<4x1xbf16>) {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<4x8xbf16>, tensor<7x8xbf16>) -> tensor<4x7xbf16>
  %1 = "burn.add"(%0, %b) : (tensor<4x7xbf16>, tensor<7xbf16>) -> tensor<4x7xbf16>
  %2 = "burn.cast"(%1) {dtype = "float32", saturate = true} : (tensor<4x7xbf16>) -> tensor<4x7xf32>
  %3 = "burn.reduce"(%2) {axes = array<i64: 1>, keepdims = true, kind = "max"} : (tensor<4x7xf32>) -> tensor<4x1xf32>
  %4 = "burn.sub"(%2, %3) : (tensor<4x7xf32>, tensor<4x1xf32>) -> tensor<4x7xf32>
  %i = "burn.iota"() {axis = 1 : i64, dtype = "int64", shape = ["1", "7"]} : () -> tensor<1x7xi64>
  %5 = "burn.eq"(%t, %i) : (tensor<4x1xi64>, tensor<1x7xi64>) -> tensor<4x7xi1>
  %6 = "burn.select"(%5, %3, %4) : (tensor<4x7xi1>, tensor<4x1xf32>, tensor<4x7xf32>) -> tensor<4x7xf32>
  %7 = "burn.cast"(%6) {dtype = "bfloat16", saturate = true} : (tensor<4x7xf32>) -> tensor<4x7xbf16>
  %8 = "burn.reduce"(%7) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<4x7xbf16>) -> tensor<1x7xbf16>
  %9 = "burn.dot_general"(%7, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<4x7xbf16>, tensor<7x8xbf16>) -> tensor<4x8xbf16>
  %10 = "burn.dot_general"(%7, %x) {lhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<4x7xbf16>, tensor<4x8xbf16>) -> tensor<7x8xbf16>
  %z = "burn.full"() {dtype = "int64", shape = ["4", "1"], value = 6.0 : f64} : () -> tensor<4x1xi64>
  %11 = "burn.gather_elements"(%1, %z) {axis = 1 : i64} : (tensor<4x7xbf16>, tensor<4x1xi64>) -> tensor<4x1xbf16>
  "burn.return"(%9, %10, %8, %3, %11) : (tensor<4x8xbf16>, tensor<7x8xbf16>, tensor<1x7xbf16>, tensor<4x1xf32>, tensor<4x1xbf16>) -> ()
}
// CHECK: %[[W:.+]] = "burn.pad"(%arg1
// CHECK: "burn.dot_general"(%arg0, %[[W]])
// CHECK-SAME: tensor<4x64xbf16>
// CHECK: "burn.reduce"({{.*}}kind = "max"{{.*}}tensor<4x64xf32>
// CHECK: "burn.eq"({{.*}}tensor<4x64xi1>
// CHECK: "burn.reduce"({{.*}}kind = "sum"{{.*}}tensor<4x64xbf16>
// CHECK: "burn.dot_general"({{.*}}(tensor<4x64xbf16>, tensor<64x8xbf16>) -> tensor<4x8xbf16>
// CHECK: "burn.dot_general"({{.*}}(tensor<4x64xbf16>, tensor<4x8xbf16>) -> tensor<64x8xbf16>
// CHECK: "burn.slice"({{.*}}tensor<7x8xbf16>
// CHECK-NOT: tensor<4x7xf32>
// CHECK: burn.return

// ----- what nothing multiplies again stays
func.func @main(%x: tensor<4x8xbf16>, %w: tensor<7x8xbf16>) -> tensor<4x7xf32> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 1>} : (tensor<4x8xbf16>, tensor<7x8xbf16>) -> tensor<4x7xbf16>
  %1 = "burn.cast"(%0) {dtype = "float32", saturate = true} : (tensor<4x7xbf16>) -> tensor<4x7xf32>
  "burn.return"(%1) : (tensor<4x7xf32>) -> ()
}
// CHECK: "burn.dot_general"(%arg0, %arg1)
// CHECK-NEXT: burn.cast
