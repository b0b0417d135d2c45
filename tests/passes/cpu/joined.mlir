// passes: decompose,fuse

// ----- what makes the parts of a joining writes them to their places
func.func @main(%x: tensor<?x4xf32, ["n", "4"]>, %w: tensor<4x8xf32>, %v: tensor<4x3xf32>) -> tensor<?x15xf32, ["n", "15"]> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x4xf32, ["n", "4"]>, tensor<4x8xf32>) -> tensor<?x8xf32, ["n", "8"]>
  %1 = "burn.relu"(%0) : (tensor<?x8xf32, ["n", "8"]>) -> tensor<?x8xf32, ["n", "8"]>
  %2 = "burn.dot_general"(%x, %v) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x4xf32, ["n", "4"]>, tensor<4x3xf32>) -> tensor<?x3xf32, ["n", "3"]>
  %3 = "burn.tanh"(%x) : (tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]>
  %4 = "burn.concat"(%1, %3, %2) {axis = 1 : i64} : (tensor<?x8xf32, ["n", "8"]>, tensor<?x4xf32, ["n", "4"]>, tensor<?x3xf32, ["n", "3"]>) -> tensor<?x15xf32, ["n", "15"]>
  "burn.return"(%4) : (tensor<?x15xf32, ["n", "15"]>) -> ()
}
// CHECK: burn.group
// CHECK: burn.concat
// CHECK: kind = "concat"
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- but a part that something else reads lies by itself, and is copied
func.func @main(%x: tensor<5x4xf32>, %w: tensor<4x8xf32>) -> (tensor<10x8xf32>, tensor<5x8xf32>) {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<5x4xf32>, tensor<4x8xf32>) -> tensor<5x8xf32>
  %1 = "burn.exp"(%0) : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %2 = "burn.concat"(%1, %0) {axis = 0 : i64} : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<10x8xf32>
  "burn.return"(%2, %1) : (tensor<10x8xf32>, tensor<5x8xf32>) -> ()
}
// CHECK: burn.group
// CHECK: kind = "contract"
// CHECK: burn.group
// CHECK: burn.concat
// CHECK: kind = "loop"

// ----- and so does one that another part is made of
func.func @main(%x: tensor<5x4xf32>, %w: tensor<4x4xf32>) -> tensor<5x8xf32> {
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<5x4xf32>, tensor<4x4xf32>) -> tensor<5x4xf32>
  %1 = "burn.dot_general"(%0, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<5x4xf32>, tensor<4x4xf32>) -> tensor<5x4xf32>
  %2 = "burn.concat"(%0, %1) {axis = 1 : i64} : (tensor<5x4xf32>, tensor<5x4xf32>) -> tensor<5x8xf32>
  "burn.return"(%2) : (tensor<5x8xf32>) -> ()
}
// CHECK: kind = "contract"
// CHECK: burn.dot_general
// CHECK: burn.concat
// CHECK: kind = "concat"
