// passes: simplify

// ----- square
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 2.0 : f64} : () -> tensor<f32>
  %0 = "burn.pow"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%0) : (tensor<4xf32>) -> ()
}
// CHECK: "burn.mul"(%arg0, %arg0)
// CHECK-NOT: burn.pow

// ----- cube
// rounds
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 3.0 : f64} : () -> tensor<f32>
  %0 = "burn.pow"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%0) : (tensor<4xf32>) -> ()
}
// CHECK-COUNT-2: "burn.mul"
// CHECK-NOT: burn.pow

// ----- power one half
// rounds
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 0.5 : f64} : () -> tensor<f32>
  %y = "burn.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = "burn.pow"(%y, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%0) : (tensor<4xf32>) -> ()
}
// CHECK: "burn.sqrt"
// CHECK-NOT: burn.pow

// ----- division by a power of two
// inputs: special
func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = -8.0 : f64} : () -> tensor<f32>
  %0 = "burn.div"(%x, %a) : (tensor<40xf32>, tensor<f32>) -> tensor<40xf32>
  "burn.return"(%0) : (tensor<40xf32>) -> ()
}
// CHECK: value = -1.250000e-01
// CHECK-NEXT: "burn.mul"

// ----- division by three stays
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 3.0 : f64} : () -> tensor<f32>
  %0 = "burn.div"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%0) : (tensor<4xf32>) -> ()
}
// CHECK: "burn.div"

// ----- integer division by two stays
func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  %a = "burn.full"() {bits = 2 : i64, dtype = "int32", shape = []} : () -> tensor<i32>
  %0 = "burn.div"(%x, %a) : (tensor<4xi32>, tensor<i32>) -> tensor<4xi32>
  "burn.return"(%0) : (tensor<4xi32>) -> ()
}
// CHECK: "burn.div"

// ----- reciprocal of a root
// rounds
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %one = "burn.full"() {dtype = "float32", shape = [], value = 1.0 : f64} : () -> tensor<f32>
  %y = "burn.exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = "burn.sqrt"(%y) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "burn.div"(%one, %0) : (tensor<f32>, tensor<4xf32>) -> tensor<4xf32>
  "burn.return"(%1) : (tensor<4xf32>) -> ()
}
// CHECK: "burn.rsqrt"
// CHECK-NOT: burn.div

// ----- division of rows by their roots
// rounds
func.func @main(%x: tensor<?x4xf32, ["n", "4"]>, %v: tensor<?x1xf32, ["n", "1"]>) -> tensor<?x4xf32, ["n", "4"]> {
  %y = "burn.exp"(%v) : (tensor<?x1xf32, ["n", "1"]>) -> tensor<?x1xf32, ["n", "1"]>
  %0 = "burn.sqrt"(%y) : (tensor<?x1xf32, ["n", "1"]>) -> tensor<?x1xf32, ["n", "1"]>
  %1 = "burn.div"(%x, %0) : (tensor<?x4xf32, ["n", "4"]>, tensor<?x1xf32, ["n", "1"]>) -> tensor<?x4xf32, ["n", "4"]>
  "burn.return"(%1) : (tensor<?x4xf32, ["n", "4"]>) -> ()
}
// CHECK: %[[R:.*]] = "burn.rsqrt"
// CHECK-NEXT: "burn.mul"(%arg0, %[[R]])
