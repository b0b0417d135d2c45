// passes: partition{mesh=data:2,model:2 rank=3 batch=1 inputs=data;model;model;-,model}

// ----- a matmul by columns, then one by rows: one reduction behind both
func.func @main(%x: tensor<8x4xf32>, %a: tensor<6x4xf32>, %b: tensor<6xf32>, %c: tensor<4x6xf32>) -> (tensor<8x4xf32>) {
  %0 = "burn.dot_general"(%x, %a) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
  %1 = "burn.add"(%0, %b) : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
  %2 = "burn.tanh"(%1) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %3 = "burn.dot_general"(%2, %c) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<8x6xf32>, tensor<4x6xf32>) -> tensor<8x4xf32>
  "burn.return"(%3) : (tensor<8x4xf32>) -> ()
}
// CHECK: burn.dot_general{{.*}} -> tensor<4x3xf32>
// CHECK: burn.tanh{{.*}} -> tensor<4x3xf32>
// CHECK: burn.dot_general{{.*}} -> tensor<4x4xf32>
// CHECK: burn.all_reduce{{.*}}groups = array<i64: 0, 1, 2, 3>
// CHECK: burn.all_gather{{.*}}groups = array<i64: 0, 2, 1, 3>{{.*}} -> tensor<8x4xf32>
