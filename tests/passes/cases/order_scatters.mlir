// passes: order_scatters{few=2 longest=3 piece=2}

// ----- rows of constant targets, one from the end
// rounds
func.func @main(%x: tensor<5x3xf32>, %u: tensor<4x3xf32>) -> tensor<5x3xf32> {
  %i = "burn.constant"() {dtype = "int64", shape = ["4", "1"], bits = array<i64: 3, 0, -2, 0>, values = array<f64>} : () -> tensor<4x1xi64>
  %0 = "burn.scatter_nd"(%x, %i, %u) {reduction = "add"} : (tensor<5x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>) -> tensor<5x3xf32>
  "burn.return"(%0) : (tensor<5x3xf32>) -> ()
}
// CHECK-NOT: burn.scatter_nd
// CHECK: %[[ORDER:.*]] = "burn.weight"() {{.*}}key = "order"
// CHECK: %[[STARTS:.*]] = "burn.weight"() {{.*}}key = "starts", shape = ["6"]
// CHECK: burn.segment_reduce"({{.*}}, {{.*}}, %[[ORDER]], %[[STARTS]]) {longest = 2 : i64, reduction = "add"}

// ----- tuples in a matrix of candidates
// inputs: special
func.func @main(%x: tensor<2x3xf32>, %u: tensor<2x2xf32>) -> tensor<2x3xf32> {
  %i = "burn.constant"() {dtype = "int32", shape = ["2", "2", "2"], bits = array<i64: 1, 2, 0, -1, 0, 0, 1, 2>, values = array<f64>} : () -> tensor<2x2x2xi32>
  %0 = "burn.scatter_nd"(%x, %i, %u) {reduction = "max"} : (tensor<2x3xf32>, tensor<2x2x2xi32>, tensor<2x2xf32>) -> tensor<2x3xf32>
  "burn.return"(%0) : (tensor<2x3xf32>) -> ()
}
// CHECK-NOT: burn.scatter_nd
// CHECK: burn.segment_reduce"{{.*}}reduction = "max"{{.*}}tensor<6xf32>

// ----- a target with many updates combines pieces
// rounds
func.func @main(%x: tensor<2x3xf32>, %u: tensor<7x3xf32>) -> tensor<2x3xf32> {
  %i = "burn.constant"() {dtype = "int64", shape = ["7", "1"], bits = array<i64: 1, 1, 1, 0, 1, 1, 1>, values = array<f64>} : () -> tensor<7x1xi64>
  %0 = "burn.scatter_nd"(%x, %i, %u) {reduction = "add"} : (tensor<2x3xf32>, tensor<7x1xi64>, tensor<7x3xf32>) -> tensor<2x3xf32>
  "burn.return"(%0) : (tensor<2x3xf32>) -> ()
}
// CHECK: %[[PIECES:.*]] = "burn.segment_reduce"{{.*}}longest = 4{{.*}} -> tensor<3x3xf32>
// CHECK: "burn.segment_reduce"(%arg0, %[[PIECES]]{{.*}}longest = 2{{.*}} -> tensor<2x3xf32>

// ----- all updates have one target
// rounds
func.func @main(%x: tensor<2x3xf32>, %u: tensor<5x3xf32>) -> tensor<2x3xf32> {
  %i = "burn.full"() {dtype = "int64", shape = ["5", "1"], value = 1.0 : f64, bits = 1 : i64} : () -> tensor<5x1xi64>
  %0 = "burn.scatter_nd"(%x, %i, %u) {reduction = "mul"} : (tensor<2x3xf32>, tensor<5x1xi64>, tensor<5x3xf32>) -> tensor<2x3xf32>
  "burn.return"(%0) : (tensor<2x3xf32>) -> ()
}
// CHECK-NOT: burn.scatter_nd
// CHECK-COUNT-2: burn.segment_reduce"

// ----- the last of several updates
func.func @main(%x: tensor<4xi32>, %u: tensor<5xi32>) -> tensor<4xi32> {
  %i = "burn.constant"() {dtype = "int64", shape = ["5", "1"], bits = array<i64: 2, 0, 2, 2, 0>, values = array<f64>} : () -> tensor<5x1xi64>
  %0 = "burn.scatter_nd"(%x, %i, %u) {reduction = "none"} : (tensor<4xi32>, tensor<5x1xi64>, tensor<5xi32>) -> tensor<4xi32>
  "burn.return"(%0) : (tensor<4xi32>) -> ()
}
// CHECK-NOT: burn.scatter_nd
// CHECK: burn.segment_reduce"{{.*}}longest = 1 : i64, reduction = "none"

// ----- elements whose lines have the same targets are rows
func.func @main(%x: tensor<2x4xf32>, %u: tensor<2x3xf32>) -> tensor<2x4xf32> {
  %i = "burn.constant"() {dtype = "int64", shape = ["2", "3"], bits = array<i64: 3, 1, -1, 3, 1, -1>, values = array<f64>} : () -> tensor<2x3xi64>
  %0 = "burn.scatter_elements"(%x, %i, %u) {axis = 1 : i64, reduction = "add"} : (tensor<2x4xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x4xf32>
  "burn.return"(%0) : (tensor<2x4xf32>) -> ()
}
// CHECK-NOT: burn.scatter_elements
// CHECK: burn.segment_reduce"{{.*}} -> tensor<4x2xf32>
// CHECK: burn.transpose

// ----- other elements are rows of one number
func.func @main(%x: tensor<3x4xf32>, %u: tensor<2x3xf32>) -> tensor<3x4xf32> {
  %i = "burn.constant"() {dtype = "int64", shape = ["2", "3"], bits = array<i64: 2, 0, -1, 1, 1, 2>, values = array<f64>} : () -> tensor<2x3xi64>
  %0 = "burn.scatter_elements"(%x, %i, %u) {axis = 0 : i64, reduction = "min"} : (tensor<3x4xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<3x4xf32>
  "burn.return"(%0) : (tensor<3x4xf32>) -> ()
}
// CHECK-NOT: burn.scatter_elements
// CHECK: burn.segment_reduce"{{.*}} -> tensor<12xf32>

// ----- an index out of range is an error when the program runs, and a few updates are compared: stays
func.func @main(%x: tensor<4xf32>, %u: tensor<2xf32>, %i: tensor<3x1xi8>, %v: tensor<3xf32>) -> tensor<4xf32> {
  %few = "burn.constant"() {dtype = "int64", shape = ["2", "1"], bits = array<i64: 2, 2>, values = array<f64>} : () -> tensor<2x1xi64>
  %0 = "burn.scatter_nd"(%x, %few, %u) {reduction = "add"} : (tensor<4xf32>, tensor<2x1xi64>, tensor<2xf32>) -> tensor<4xf32>
  "burn.return"(%0) : (tensor<4xf32>) -> ()
}
// CHECK: burn.scatter_nd
// CHECK-NOT: burn.segment_reduce

// ----- few updates of a value that may be updated in place: stays
func.func @main(%x: tensor<17x3xf32>, %u: tensor<4x3xf32>) -> tensor<17x3xf32> {
  %i = "burn.constant"() {dtype = "int64", shape = ["4", "1"], bits = array<i64: 3, 0, -2, 0>, values = array<f64>} : () -> tensor<4x1xi64>
  %0 = "burn.scatter_nd"(%x, %i, %u) {reduction = "add"} : (tensor<17x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>) -> tensor<17x3xf32>
  "burn.return"(%0) : (tensor<17x3xf32>) -> ()
}
// CHECK: burn.scatter_nd

// ----- as few updates of zeros
// rounds
func.func @main(%u: tensor<4x3xf32>) -> tensor<17x3xf32> {
  %x = "burn.full"() {dtype = "float32", shape = ["17", "3"], value = 0.0 : f64} : () -> tensor<17x3xf32>
  %i = "burn.constant"() {dtype = "int64", shape = ["4", "1"], bits = array<i64: 3, 0, -2, 0>, values = array<f64>} : () -> tensor<4x1xi64>
  %0 = "burn.scatter_nd"(%x, %i, %u) {reduction = "add"} : (tensor<17x3xf32>, tensor<4x1xi64>, tensor<4x3xf32>) -> tensor<17x3xf32>
  "burn.return"(%0) : (tensor<17x3xf32>) -> ()
}
// CHECK: burn.segment_reduce
