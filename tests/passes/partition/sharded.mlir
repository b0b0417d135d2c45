// passes: partition{mesh=data:2 rank=0 batch=1 inputs=data;-;data outputs=-;data}

// ----- state that is divided: gradients are scattered, and parameters gathered
func.func @main(%x: tensor<8x4xf32>, %w: tensor<6x4xf32>, %m: tensor<6x4xf32>) -> (tensor<6x4xf32>, tensor<6x4xf32>) {
  %0 = "burn.dot_general"(%x, %w) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
  %1 = "burn.dot_general"(%0, %x) {lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<8x6xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %2 = "burn.add"(%m, %1) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %3 = "burn.sub"(%w, %2) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  "burn.return"(%3, %2) : (tensor<6x4xf32>, tensor<6x4xf32>) -> ()
}
// CHECK-NOT: burn.all_reduce
// CHECK: burn.reduce_scatter{{.*}} (tensor<6x4xf32>) -> tensor<3x4xf32>
// CHECK: burn.add{{.*}} -> tensor<3x4xf32>
// CHECK: burn.sub{{.*}} -> tensor<3x4xf32>
// CHECK: burn.all_gather{{.*}} -> tensor<6x4xf32>

// ----- a sum of partial sums is scattered once
func.func @main(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>, %m: tensor<4x4xf32>) -> (tensor<4xf32>, tensor<4x4xf32>) {
  %0 = "burn.dot_general"(%x, %x) {lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %1 = "burn.dot_general"(%x, %y) {lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<4x4xf32>
  %2 = "burn.add"(%0, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %3 = "burn.add"(%m, %2) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %4 = "burn.reduce"(%3) {axes = array<i64: 1>, kind = "sum"} : (tensor<4x4xf32>) -> tensor<4xf32>
  "burn.return"(%4, %3) : (tensor<4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK: burn.add{{.*}} -> tensor<4x4xf32>
// CHECK: burn.reduce_scatter
// CHECK-NOT: burn.reduce_scatter
// CHECK: burn.add{{.*}} -> tensor<2x4xf32>
