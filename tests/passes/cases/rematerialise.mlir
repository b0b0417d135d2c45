// passes: rematerialise{far=2 least=1}

// ----- what pointwise ops make of a product is computed again for a late reader
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "burn.exp"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "burn.erf"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "burn.mul"(%1, %2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "burn.dot_general"(%3, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = "burn.neg"(%4) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %6 = "burn.mul"(%5, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %7 = "burn.mul"(%6, %2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%4, %7) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK: %[[X:.+]] = "burn.dot_general"
// CHECK: burn.exp
// CHECK: burn.neg
// CHECK: %[[KEPT:.+]] = "burn.barrier"(%[[X]]
// CHECK: %[[AGAIN:.+]] = "burn.exp"(%[[KEPT]])
// CHECK: "burn.mul"(%{{.+}}, %[[AGAIN]])
// CHECK: burn.erf

// ----- what alone reads a product is kept in its place, where it is wanted late, too
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %b = "burn.abs"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "burn.exp"(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "burn.erf"(%b) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "burn.mul"(%1, %2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "burn.dot_general"(%3, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = "burn.neg"(%4) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %6 = "burn.mul"(%5, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %8 = "burn.add"(%6, %b) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %7 = "burn.mul"(%8, %2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%4, %7) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK: %[[X:.+]] = "burn.abs"
// CHECK: burn.neg
// CHECK: "burn.barrier"(%[[X]]
// CHECK: burn.exp
// CHECK-NOT: burn.abs

// ----- one value of one product stays
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "burn.exp"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "burn.dot_general"(%1, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "burn.neg"(%2) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "burn.abs"(%3) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = "burn.mul"(%4, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%2, %5) : (tensor<4x4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK-COUNT-1: burn.exp
// CHECK-NOT: burn.exp

// ----- what a product reads late is kept and stays
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "burn.exp"(%0) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "burn.neg"(%w) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "burn.abs"(%2) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "burn.dot_general"(%1, %3) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%4) : (tensor<4x4xf32>) -> ()
}
// CHECK-COUNT-1: burn.exp
// CHECK-NOT: burn.exp
