// passes: recompute{memory=3072 far=2 least=1}

// ----- what is made of a product that is kept anyway is computed again from that, behind a barrier
func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = "burn.tanh"(%0) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = "burn.dot_general"(%1, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %3 = "burn.dot_general"(%2, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %4 = "burn.dot_general"(%3, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %5 = "burn.add"(%4, %1) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %6 = "burn.dot_general"(%5, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %7 = "burn.add"(%6, %0) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %8 = "burn.dot_general"(%7, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  "burn.return"(%8) : (tensor<16x16xf32>) -> ()
}
// CHECK: %[[KEPT:.+]] = "burn.dot_general"(%arg0
// CHECK: "burn.tanh"(%[[KEPT]])
// CHECK: %[[LATE:.+]] = "burn.barrier"(%[[KEPT]]
// CHECK: %[[AGAIN:.+]] = "burn.tanh"(%[[LATE]])
// CHECK: "burn.add"(%{{.+}}, %[[AGAIN]])

// ----- of a product that is not kept anyway, with the product, in front of the late reader
func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = "burn.tanh"(%0) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = "burn.dot_general"(%1, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %3 = "burn.neg"(%2) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %4 = "burn.dot_general"(%3, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %5 = "burn.dot_general"(%4, %3) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %6 = "burn.dot_general"(%5, %1) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %7 = "burn.dot_general"(%6, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  "burn.return"(%7) : (tensor<16x16xf32>) -> ()
}
// CHECK: burn.tanh
// CHECK: burn.neg
// CHECK: %[[X:.+]] = "burn.dot_general"(%arg0
// CHECK-NEXT: %[[AGAIN:.+]] = "burn.tanh"(%[[X]])
// CHECK-NEXT: "burn.dot_general"(%{{.+}}, %[[AGAIN]])

// ----- what fits stays
func.func @main(%x: tensor<16x16xf32>, %w: tensor<16x16xf32>) -> tensor<16x16xf32> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %1 = "burn.tanh"(%0) : (tensor<16x16xf32>) -> tensor<16x16xf32>
  %2 = "burn.dot_general"(%1, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %3 = "burn.dot_general"(%2, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %4 = "burn.add"(%3, %1) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  %5 = "burn.dot_general"(%4, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  "burn.return"(%5) : (tensor<16x16xf32>) -> ()
}
// CHECK-COUNT-1: burn.tanh
// CHECK-NOT: burn.tanh
