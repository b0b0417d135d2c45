// passes: contiguous_depth

// ----- a constant int8 weight is transposed, so that its depth is contiguous
func.func @main(%x: tensor<3x8xi8>) -> tensor<3x5xi32> {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["8", "5"]} : () -> tensor<8x5xi8>
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>, dtype = "int32"} : (tensor<3x8xi8>, tensor<8x5xi8>) -> tensor<3x5xi32>
  "burn.return"(%0) : (tensor<3x5xi32>) -> ()
}
// CHECK: %[[T:.+]] = "burn.transpose"
// CHECK: "burn.dot_general"(%arg0, %[[T]])
// CHECK-SAME: rhs_contract = array<i64: 1>

// ----- one that is not constant is multiplied as it is, and so are floats
func.func @main(%x: tensor<3x8xi8>, %v: tensor<8x5xi8>, %y: tensor<3x8xf32>) -> (tensor<3x5xi32>, tensor<3x5xf32>, tensor<3x5xi32>) {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["8", "5"]} : () -> tensor<8x5xf32>
  %b = "burn.weight"() {dtype = "int8", key = "b", shape = ["8", "5"]} : () -> tensor<8x5xi8>
  %0 = "burn.dot_general"(%x, %v) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>, dtype = "int32"} : (tensor<3x8xi8>, tensor<8x5xi8>) -> tensor<3x5xi32>
  %1 = "burn.dot_general"(%y, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<3x8xf32>, tensor<8x5xf32>) -> tensor<3x5xf32>
  %2 = "burn.dot_general"(%x, %b) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>, dtype = "int32"} : (tensor<3x8xi8>, tensor<8x5xi8>) -> tensor<3x5xi32>
  "burn.return"(%0, %1, %2) : (tensor<3x5xi32>, tensor<3x5xf32>, tensor<3x5xi32>) -> ()
}
// CHECK: "burn.dot_general"(%arg0, %arg1)
// CHECK-SAME: rhs_contract = array<i64: 0>
// CHECK: "burn.dot_general"(%arg2
// CHECK-SAME: rhs_contract = array<i64: 0>
// CHECK: "burn.transpose"
// CHECK-SAME: tensor<5x8xi8>
