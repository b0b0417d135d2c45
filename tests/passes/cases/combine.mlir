// passes: simplify,fold

// ----- two sums of constants
func.func @main(%x: tensor<?x4xi32, ["n", "4"]>) -> tensor<?x4xi32, ["n", "4"]> {
  %a = "burn.constant"() {bits = array<i64: 1, 2, 3, 4>, values = array<f64>, shape = ["4"], dtype = "int32"} : () -> tensor<4xi32>
  %b = "burn.constant"() {bits = array<i64: 5, 6, 7, 8>, values = array<f64>, shape = ["4"], dtype = "int32"} : () -> tensor<4xi32>
  %0 = "burn.add"(%a, %x) : (tensor<4xi32>, tensor<?x4xi32, ["n", "4"]>) -> tensor<?x4xi32, ["n", "4"]>
  %1 = "burn.add"(%0, %b) : (tensor<?x4xi32, ["n", "4"]>, tensor<4xi32>) -> tensor<?x4xi32, ["n", "4"]>
  "burn.return"(%1) : (tensor<?x4xi32, ["n", "4"]>) -> ()
}
// CHECK: %[[C:.*]] = "burn.constant"() {bits = array<i64: 6, 8, 10, 12>
// CHECK-NEXT: %[[S:.*]] = "burn.add"(%arg0, %[[C]])
// CHECK-NEXT: "burn.return"(%[[S]])

// ----- constants subtracted are added
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 3.0 : f64} : () -> tensor<f32>
  %0 = "burn.sub"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%0) : (tensor<4xf32>) -> ()
}
// CHECK: "burn.full"() {{.*}}value = -3.000000e+00
// CHECK-NEXT: "burn.add"
// CHECK-NOT: burn.sub

// ----- rounding by a number that is added and subtracted
// inputs: special
func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 12582912.0 : f64} : () -> tensor<f32>
  %0 = "burn.add"(%x, %a) : (tensor<40xf32>, tensor<f32>) -> tensor<40xf32>
  %1 = "burn.sub"(%0, %a) : (tensor<40xf32>, tensor<f32>) -> tensor<40xf32>
  "burn.return"(%1) : (tensor<40xf32>) -> ()
}
// CHECK-COUNT-2: burn.add

// ----- each of two products of floats stays
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 1.0e20 : f64} : () -> tensor<f32>
  %b = "burn.full"() {dtype = "float32", shape = [], value = 1.0e-20 : f64} : () -> tensor<f32>
  %0 = "burn.mul"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "burn.mul"(%0, %b) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%1) : (tensor<4xf32>) -> ()
}
// CHECK-COUNT-2: burn.mul

// ----- a product with the negative of one
// inputs: special
func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 3.0 : f64} : () -> tensor<f32>
  %b = "burn.full"() {dtype = "float32", shape = [], value = -1.0 : f64} : () -> tensor<f32>
  %0 = "burn.mul"(%x, %a) : (tensor<40xf32>, tensor<f32>) -> tensor<40xf32>
  %1 = "burn.mul"(%0, %b) : (tensor<40xf32>, tensor<f32>) -> tensor<40xf32>
  "burn.return"(%1) : (tensor<40xf32>) -> ()
}
// CHECK: "burn.full"() {{.*}}value = -3.000000e+00
// CHECK-COUNT-1: burn.mul
// CHECK-NEXT: burn.return

// ----- quotient of a product stays
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 6.0 : f64} : () -> tensor<f32>
  %b = "burn.full"() {dtype = "float32", shape = [], value = 3.0 : f64} : () -> tensor<f32>
  %0 = "burn.mul"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "burn.div"(%0, %b) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%1) : (tensor<4xf32>) -> ()
}
// CHECK: burn.mul
// CHECK: burn.div

// ----- clipping twice
// inputs: special
func.func @main(%x: tensor<40xf32>) -> tensor<40xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %b = "burn.full"() {dtype = "float32", shape = [], value = 0.5 : f64} : () -> tensor<f32>
  %0 = "burn.max"(%x, %a) : (tensor<40xf32>, tensor<f32>) -> tensor<40xf32>
  %1 = "burn.max"(%0, %b) : (tensor<40xf32>, tensor<f32>) -> tensor<40xf32>
  "burn.return"(%1) : (tensor<40xf32>) -> ()
}
// CHECK: "burn.full"() {{.*}}value = 5.000000e-01
// CHECK-NEXT: "burn.max"
// CHECK-NEXT: "burn.return"

// ----- a sum that others read stays
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 1.5 : f64} : () -> tensor<f32>
  %0 = "burn.add"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "burn.add"(%0, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%0, %1) : (tensor<4xf32>, tensor<4xf32>) -> ()
}
// CHECK: burn.add
// CHECK: burn.add

// ----- factors whose product would overflow stays
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 1.0e25 : f64} : () -> tensor<f32>
  %0 = "burn.mul"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "burn.mul"(%0, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%1) : (tensor<4xf32>) -> ()
}
// CHECK-COUNT-2: burn.mul
