// passes: simplify

// ----- equal branches
func.func @main(%c: tensor<3x1xi1>, %x: tensor<4xf32>) -> tensor<3x4xf32> {
  %0 = "burn.select"(%c, %x, %x) : (tensor<3x1xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  "burn.return"(%0) : (tensor<3x4xf32>) -> ()
}
// CHECK-NOT: burn.select
// CHECK: broadcast_to

// ----- known condition
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %c = "burn.full"() {dtype = "bool", shape = ["4"], value = 0.0 : f64} : () -> tensor<4xi1>
  %0 = "burn.select"(%c, %x, %y) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  "burn.return"(%0) : (tensor<4xf32>) -> ()
}
// CHECK: "burn.return"(%arg1)

// ----- inverted condition
func.func @main(%c: tensor<4xi1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %n = "burn.not"(%c) : (tensor<4xi1>) -> tensor<4xi1>
  %0 = "burn.select"(%n, %x, %y) : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  "burn.return"(%0) : (tensor<4xf32>) -> ()
}
// CHECK: "burn.select"(%arg0, %arg2, %arg1)
// CHECK-NOT: burn.not

// ----- choice between true and false
func.func @main(%c: tensor<4xi1>) -> tensor<4xi1> {
  %t = "burn.full"() {dtype = "bool", shape = [], value = 1.0 : f64} : () -> tensor<i1>
  %f = "burn.full"() {dtype = "bool", shape = [], value = 0.0 : f64} : () -> tensor<i1>
  %0 = "burn.select"(%c, %f, %t) : (tensor<4xi1>, tensor<i1>, tensor<i1>) -> tensor<4xi1>
  "burn.return"(%0) : (tensor<4xi1>) -> ()
}
// CHECK: "burn.not"(%arg0)
// CHECK-NOT: burn.select

// ----- inverted comparison of integers
func.func @main(%x: tensor<40xi32>, %y: tensor<40xi32>) -> tensor<40xi1> {
  %0 = "burn.lt"(%x, %y) : (tensor<40xi32>, tensor<40xi32>) -> tensor<40xi1>
  %1 = "burn.not"(%0) : (tensor<40xi1>) -> tensor<40xi1>
  "burn.return"(%1) : (tensor<40xi1>) -> ()
}
// CHECK: "burn.ge"(%arg0, %arg1)
// CHECK-NOT: burn.not

// ----- inverted comparison of floats stays
// inputs: special
func.func @main(%x: tensor<40xf32>, %y: tensor<40xf32>) -> tensor<40xi1> {
  %0 = "burn.lt"(%x, %y) : (tensor<40xf32>, tensor<40xf32>) -> tensor<40xi1>
  %1 = "burn.not"(%0) : (tensor<40xi1>) -> tensor<40xi1>
  "burn.return"(%1) : (tensor<40xi1>) -> ()
}
// CHECK: burn.not

// ----- an integer and itself
func.func @main(%x: tensor<4xi32>) -> tensor<4xi1> {
  %0 = "burn.le"(%x, %x) : (tensor<4xi32>, tensor<4xi32>) -> tensor<4xi1>
  "burn.return"(%0) : (tensor<4xi1>) -> ()
}
// CHECK: "burn.full"() {dtype = "bool", shape = ["4"], value = 1.0
// CHECK-NOT: burn.le

// ----- a float and itself stays
// inputs: special
func.func @main(%x: tensor<40xf32>) -> tensor<40xi1> {
  %0 = "burn.eq"(%x, %x) : (tensor<40xf32>, tensor<40xf32>) -> tensor<40xi1>
  "burn.return"(%0) : (tensor<40xi1>) -> ()
}
// CHECK: burn.eq

// ----- choice between two numbers, compared
func.func @main(%c: tensor<3x4xi1>) -> tensor<3x4xi1> {
  %one = "burn.full"() {dtype = "float32", shape = ["1"], value = 1.0 : f64} : () -> tensor<1xf32>
  %zero = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %0 = "burn.select"(%c, %one, %zero) : (tensor<3x4xi1>, tensor<1xf32>, tensor<f32>) -> tensor<3x4xf32>
  %1 = "burn.eq"(%0, %zero) : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xi1>
  "burn.return"(%1) : (tensor<3x4xi1>) -> ()
}
// CHECK: "burn.not"(%arg0)
// CHECK-NOT: burn.eq

// ----- choice between a number and a tensor, compared, stays
func.func @main(%c: tensor<4xi1>, %x: tensor<4xf32>) -> tensor<4xi1> {
  %zero = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %0 = "burn.select"(%c, %x, %zero) : (tensor<4xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "burn.eq"(%0, %zero) : (tensor<4xf32>, tensor<f32>) -> tensor<4xi1>
  "burn.return"(%1) : (tensor<4xi1>) -> ()
}
// CHECK: burn.eq
