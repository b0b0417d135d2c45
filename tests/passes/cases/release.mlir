// passes: fuse,release

// ----- what is computed again behind a barrier stays there: the kernel that made what it reads does not take it in
func.func @main(%x: tensor<4x4xf32>, %g: tensor<4x4xf32>) -> (tensor<4x1xf32>, tensor<4x4xf32>) {
  %0 = "burn.exp"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<4x4xf32>) -> tensor<4x1xf32>
  %2 = "burn.barrier"(%0, %g) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "burn.neg"(%2) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%1, %3) : (tensor<4x1xf32>, tensor<4x4xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.reduce
// CHECK-NOT: burn.barrier
// CHECK: burn.group
// CHECK: burn.neg

// ----- a barrier that waits for nothing lets the product take in what is computed behind it
func.func @main(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> (tensor<4x1xf32>, tensor<4x4xf32>) {
  %0 = "burn.exp"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<4x4xf32>) -> tensor<4x1xf32>
  %2 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "burn.barrier"(%0, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "burn.neg"(%3) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %5 = "burn.mul"(%2, %4) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%1, %5) : (tensor<4x1xf32>, tensor<4x4xf32>) -> ()
}
// CHECK: burn.group
// CHECK: burn.reduce
// CHECK: burn.group
// CHECK: burn.dot_general
// CHECK: burn.neg
// CHECK: burn.mul
// CHECK: contract
