// passes: simplify

// ----- x + 0 of what is no -0
// inputs: special
func.func @main(%x: tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %1 = "burn.exp"(%x) : (tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]>
  %2 = "burn.add"(%0, %1) : (tensor<f32>, tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]>
  "burn.return"(%2) : (tensor<?x4xf32, ["n", "4"]>) -> ()
}
// CHECK: %[[X:.*]] = "burn.exp"
// CHECK-NEXT: "burn.return"(%[[X]])

// ----- x + 0 where the sign of a zero is not seen
// inputs: special
func.func @main(%x: tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %1 = "burn.add"(%x, %0) : (tensor<?x4xf32, ["n", "4"]>, tensor<f32>) -> tensor<?x4xf32, ["n", "4"]>
  %2 = "burn.exp"(%1) : (tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]>
  "burn.return"(%2) : (tensor<?x4xf32, ["n", "4"]>) -> ()
}
// CHECK: %[[X:.*]] = "burn.exp"(%arg0)
// CHECK-NEXT: "burn.return"(%[[X]])

// ----- x - 0
// inputs: special
func.func @main(%x: tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %1 = "burn.sub"(%x, %0) : (tensor<?x4xf32, ["n", "4"]>, tensor<f32>) -> tensor<?x4xf32, ["n", "4"]>
  "burn.return"(%1) : (tensor<?x4xf32, ["n", "4"]>) -> ()
}
// CHECK-NOT: burn.sub
// CHECK: "burn.return"(%arg0)

// ----- x + 0, which is 0 for -0, stays
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %1 = "burn.add"(%x, %0) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%1) : (tensor<4xf32>) -> ()
}
// CHECK: burn.add

// ----- x * 1 where the one is larger
func.func @main(%x: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = "burn.full"() {dtype = "float32", shape = ["3", "1"], value = 1.0 : f64} : () -> tensor<3x1xf32>
  %1 = "burn.mul"(%x, %0) : (tensor<4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  "burn.return"(%1) : (tensor<3x4xf32>) -> ()
}
// CHECK-NOT: burn.mul
// CHECK: "burn.broadcast_to"

// ----- x * 0 of integers
func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  %0 = "burn.full"() {bits = 0 : i64, dtype = "int32", shape = []} : () -> tensor<i32>
  %1 = "burn.mul"(%x, %0) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  "burn.return"(%1) : (tensor<4xi32>) -> ()
}
// CHECK: "burn.full"() {bits = 0 : i64, dtype = "int32", shape = ["4"]
// CHECK-NEXT: burn.return

// ----- x * 0 of floats stays
// inputs: special
func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %1 = "burn.mul"(%x, %0) : (tensor<40xf32>, tensor<f32>) -> tensor<40xf32>
  "burn.return"(%1) : (tensor<40xf32>) -> ()
}
// CHECK: "burn.mul"

// ----- max with minus infinity
// inputs: special
func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %0 = "burn.full"() {dtype = "float32", shape = [], value = 0xFFF0000000000000 : f64} : () -> tensor<f32>
  %1 = "burn.max"(%x, %0) : (tensor<40xf32>, tensor<f32>) -> tensor<40xf32>
  "burn.return"(%1) : (tensor<40xf32>) -> ()
}
// CHECK-NOT: burn.max

// ----- min with the highest integer
func.func @main(%x: tensor<40xi8>) -> tensor<40xi8> {
  %0 = "burn.full"() {bits = 127 : i64, dtype = "int8", shape = []} : () -> tensor<i8>
  %1 = "burn.min"(%x, %0) : (tensor<40xi8>, tensor<i8>) -> tensor<40xi8>
  "burn.return"(%1) : (tensor<40xi8>) -> ()
}
// CHECK-NOT: burn.min

// ----- double negation
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "burn.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "burn.neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  "burn.return"(%1) : (tensor<4xf32>) -> ()
}
// CHECK-NOT: burn.neg

// ----- rounding what is rounded
// inputs: special
func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %0 = "burn.ceil"(%x) : (tensor<40xf32>) -> tensor<40xf32>
  %1 = "burn.floor"(%0) : (tensor<40xf32>) -> tensor<40xf32>
  "burn.return"(%1) : (tensor<40xf32>) -> ()
}
// CHECK: burn.ceil
// CHECK-NOT: burn.floor

// ----- relu of relu
// inputs: special
func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %0 = "burn.relu"(%x) : (tensor<40xf32>) -> tensor<40xf32>
  %1 = "burn.relu"(%0) : (tensor<40xf32>) -> tensor<40xf32>
  "burn.return"(%1) : (tensor<40xf32>) -> ()
}
// CHECK-COUNT-1: burn.relu
// CHECK-NEXT: burn.return

// ----- magnitude of the negative
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "burn.neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "burn.abs"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  "burn.return"(%1) : (tensor<4xf32>) -> ()
}
// CHECK-NOT: burn.neg

// ----- max of a value and itself
// inputs: special
func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %0 = "burn.max"(%x, %x) : (tensor<40xf32>, tensor<40xf32>) -> tensor<40xf32>
  "burn.return"(%0) : (tensor<40xf32>) -> ()
}
// CHECK-NOT: burn.max

// ----- an integer minus itself
func.func @main(%x: tensor<4xi64>) -> tensor<4xi64> {
  %0 = "burn.sub"(%x, %x) : (tensor<4xi64>, tensor<4xi64>) -> tensor<4xi64>
  "burn.return"(%0) : (tensor<4xi64>) -> ()
}
// CHECK-NOT: burn.sub

// ----- adding a negative
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "burn.neg"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "burn.add"(%x, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  "burn.return"(%1) : (tensor<4xf32>) -> ()
}
// CHECK: "burn.sub"(%arg0, %arg1)
// CHECK-NEXT: burn.return
