// passes: simplify,fold

// ----- two sums of constants
// rounds
func.func @main(%x: tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]> {
  %a = "burn.constant"() {values = array<f64: 1.0, 2.0, 3.0, 4.0>, shape = ["4"], dtype = "float32"} : () -> tensor<4xf32>
  %b = "burn.constant"() {values = array<f64: 5.0, 6.0, 7.0, 8.0>, shape = ["4"], dtype = "float32"} : () -> tensor<4xf32>
  %0 = "burn.add"(%a, %x) : (tensor<4xf32>, tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]>
  %1 = "burn.add"(%0, %b) : (tensor<?x4xf32, ["n", "4"]>, tensor<4xf32>) -> tensor<?x4xf32, ["n", "4"]>
  "burn.return"(%1) : (tensor<?x4xf32, ["n", "4"]>) -> ()
}
// CHECK: %[[C:.*]] = "burn.constant"() {{.*}}values = array<f64: 6.000000e+00, 8.000000e+00, 1.000000e+01, 1.200000e+01>
// CHECK-NEXT: %[[S:.*]] = "burn.add"(%arg0, %[[C]])
// CHECK-NEXT: "burn.return"(%[[S]])

// ----- constants subtracted are added
// rounds
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 3.0 : f64} : () -> tensor<f32>
  %0 = "burn.sub"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "burn.sub"(%0, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%1) : (tensor<4xf32>) -> ()
}
// CHECK: "burn.full"() {{.*}}value = -6.000000e+00
// CHECK-NEXT: "burn.add"
// CHECK-NOT: burn.sub

// ----- quotient of a product
// rounds
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 6.0 : f64} : () -> tensor<f32>
  %b = "burn.full"() {dtype = "float32", shape = [], value = 3.0 : f64} : () -> tensor<f32>
  %0 = "burn.mul"(%x, %a) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "burn.div"(%0, %b) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%1) : (tensor<4xf32>) -> ()
}
// CHECK: "burn.full"() {{.*}}value = 2.000000e+00
// CHECK-NEXT: "burn.mul"
// CHECK-NOT: burn.div

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
