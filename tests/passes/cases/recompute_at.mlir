// passes: recompute{memory=2600 far=2 least=1 at=n:16}

// ----- a product is computed again, bytes counted where n is 16
func.func @main(%x: tensor<?x16xf32, ["n", "16"]>, %w: tensor<16x16xf32>) -> tensor<?x16xf32, ["n", "16"]> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x16xf32, ["n", "16"]>, tensor<16x16xf32>) -> tensor<?x16xf32, ["n", "16"]>
  %1 = "burn.dot_general"(%0, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x16xf32, ["n", "16"]>, tensor<16x16xf32>) -> tensor<?x16xf32, ["n", "16"]>
  %2 = "burn.dot_general"(%1, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x16xf32, ["n", "16"]>, tensor<16x16xf32>) -> tensor<?x16xf32, ["n", "16"]>
  %3 = "burn.dot_general"(%2, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x16xf32, ["n", "16"]>, tensor<16x16xf32>) -> tensor<?x16xf32, ["n", "16"]>
  %4 = "burn.dot_general"(%3, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x16xf32, ["n", "16"]>, tensor<16x16xf32>) -> tensor<?x16xf32, ["n", "16"]>
  %5 = "burn.add"(%4, %0) : (tensor<?x16xf32, ["n", "16"]>, tensor<?x16xf32, ["n", "16"]>) -> tensor<?x16xf32, ["n", "16"]>
  %6 = "burn.dot_general"(%5, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x16xf32, ["n", "16"]>, tensor<16x16xf32>) -> tensor<?x16xf32, ["n", "16"]>
  "burn.return"(%6) : (tensor<?x16xf32, ["n", "16"]>) -> ()
}
// CHECK: "burn.dot_general"(%arg0
// CHECK: %[[AGAIN:.+]] = "burn.dot_general"(%arg0
// CHECK-NEXT: "burn.add"(%{{.+}}, %[[AGAIN]])
