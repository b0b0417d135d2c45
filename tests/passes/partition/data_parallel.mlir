// passes: partition{mesh=data:2 rank=1 batch=1 inputs=data wait}

// ----- a batch that is divided: sums over it are partial, and neighbours are one bucket
func.func @main(%x: tensor<8x4xf32>, %w: tensor<6x4xf32>, %b: tensor<6xf32>) -> (tensor<f32>, tensor<6x4xf32>) {
  %0 = "burn.dot_general"(%x, %w) {lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<8x4xf32>, tensor<6x4xf32>) -> tensor<8x6xf32>
  %1 = "burn.add"(%0, %b) : (tensor<8x6xf32>, tensor<6xf32>) -> tensor<8x6xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 0, 1>, kind = "sum"} : (tensor<8x6xf32>) -> tensor<f32>
  %3 = "burn.dot_general"(%1, %x) {lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<8x6xf32>, tensor<8x4xf32>) -> tensor<6x4xf32>
  %4 = "burn.sub"(%w, %3) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  "burn.return"(%2, %4) : (tensor<f32>, tensor<6x4xf32>) -> ()
}
// CHECK: @main(%arg0: tensor<4x4xf32>
// CHECK: burn.dot_general{{.*}} -> tensor<4x6xf32>
// CHECK: burn.reduce{{.*}} (tensor<4x6xf32>) -> tensor<f32>
// CHECK: burn.dot_general{{.*}} -> tensor<6x4xf32>
// CHECK: burn.all_reduce{{.*}}groups = array<i64: 0, 1>, reduction = "sum", size = 2{{.*}} -> (tensor<f32>, tensor<6x4xf32>)
// CHECK-NEXT: burn.collective_wait
// CHECK-NEXT: burn.collective_wait
// CHECK: burn.sub
// CHECK: burn.return

// ----- batch statistics are those of the whole batch
func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = "burn.reduce"(%x) {axes = array<i64: 0>, kind = "max", keepdims = true} : (tensor<8x4xf32>) -> tensor<1x4xf32>
  %1 = "burn.sub"(%x, %0) : (tensor<8x4xf32>, tensor<1x4xf32>) -> tensor<8x4xf32>
  "burn.return"(%1) : (tensor<8x4xf32>) -> ()
}
// CHECK: burn.reduce{{.*}} -> tensor<1x4xf32>
// CHECK: burn.isnan
// CHECK: burn.all_reduce{{.*}}reduction = "max"{{.*}} -> tensor<1x4xi32>
// CHECK: burn.bitcast{{.*}} -> tensor<1x4xf32>
// CHECK: burn.sub{{.*}} -> tensor<4x4xf32>
// CHECK: burn.all_gather{{.*}} -> tensor<8x4xf32>

// ----- elements that are computed from their index are those of the block
func.func @main(%x: tensor<8x4xi64>) -> tensor<4xi64> {
  %0 = "burn.iota"() {shape = ["32"], axis = 0 : i64, dtype = "int64"} : () -> tensor<32xi64>
  %1 = "burn.reshape"(%0) {shape = ["8", "4"]} : (tensor<32xi64>) -> tensor<8x4xi64>
  %2 = "burn.add"(%x, %1) : (tensor<8x4xi64>, tensor<8x4xi64>) -> tensor<8x4xi64>
  %3 = "burn.reduce"(%2) {axes = array<i64: 0>, kind = "sum"} : (tensor<8x4xi64>) -> tensor<4xi64>
  "burn.return"(%3) : (tensor<4xi64>) -> ()
}
// CHECK: burn.iota{{.*}} -> tensor<16xi64>
// CHECK: bits = 16
// CHECK: burn.add
// CHECK: burn.reshape{{.*}} -> tensor<4x4xi64>
// CHECK-NOT: burn.slice

// ----- an op without a rule gets whole operands
func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0:2 = "burn.sort"(%x) {axis = 0 : i64, descending = false} : (tensor<8x4xf32>) -> (tensor<8x4xf32>, tensor<8x4xi64>)
  "burn.return"(%0#0) : (tensor<8x4xf32>) -> ()
}
// CHECK: burn.all_gather
// CHECK: burn.collective_wait
// CHECK: burn.sort{{.*}} (tensor<8x4xf32>) ->

// ----- the gradient of an embedding: each device adds its own updates
func.func @main(%i: tensor<8x1xi64>, %g: tensor<8x3xf32>) -> tensor<5x3xf32> {
  %0 = "burn.full"() {shape = ["5", "3"], dtype = "float32", value = 0.0 : f64} : () -> tensor<5x3xf32>
  %1 = "burn.scatter_nd"(%0, %i, %g) {reduction = "add"} : (tensor<5x3xf32>, tensor<8x1xi64>, tensor<8x3xf32>) -> tensor<5x3xf32>
  "burn.return"(%1) : (tensor<5x3xf32>) -> ()
}
// CHECK: burn.slice{{.*}}starts = ["4", "0"]{{.*}} -> tensor<4x3xf32>
// CHECK: burn.scatter_nd{{.*}}tensor<4x1xi64>
// CHECK: burn.all_reduce{{.*}} -> tensor<5x3xf32>
