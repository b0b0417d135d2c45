// passes: pack{vector-bytes=32}

// ----- a constant right side becomes panels of two vectors, filled up with zeros
// rounds
func.func @main(%x: tensor<?x7xf32, ["n", "7"]>) -> tensor<?x21xf32, ["n", "21"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["7", "21"]} : () -> tensor<7x21xf32>
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x7xf32, ["n", "7"]>, tensor<7x21xf32>) -> tensor<?x21xf32, ["n", "21"]>
  "burn.return"(%0) : (tensor<?x21xf32, ["n", "21"]>) -> ()
}
// CHECK: burn.pad
// CHECK: burn.reshape
// CHECK-SAME: tensor<7x2x16xf32>
// CHECK: burn.dot_general
// CHECK-SAME: columns = 21
// CHECK-SAME: tensor<2x7x16xf32>

// ----- a computed right side gets its columns last
// rounds
func.func @main(%x: tensor<3x4xf32>, %y: tensor<5x4xf32>) -> tensor<3x5xf32> {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>
  "burn.return"(%0) : (tensor<3x5xf32>) -> ()
}
// CHECK: burn.transpose
// CHECK: burn.dot_general
// CHECK-SAME: rhs_contract = array<i64: 0>
// CHECK-NOT: columns
