// passes: simplify

// ----- results that nothing uses, stacks of one value, and a carried value that no iteration changes
func.func @main(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<5x3xf32>, tensor<5x3xf32>) {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 5.0 : f64} : () -> tensor<i64>
  %0:6 = "burn.loop"(%n, %x, %x, %y) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %a: tensor<3xf32>, %b: tensor<3xf32>, %c: tensor<3xf32>):
    %1 = "burn.add"(%a, %c) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %2 = "burn.exp"(%b) : (tensor<3xf32>) -> tensor<3xf32>
    "burn.yield"(%go, %1, %2, %c, %1, %1, %2) : (tensor<i1>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> ()
  }) {scans = 3 : i64, segments = array<i64: 1, 0, 3>, symbols = []} : (tensor<i64>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<5x3xf32>, tensor<5x3xf32>, tensor<5x3xf32>)
  "burn.return"(%0#3, %0#4) : (tensor<5x3xf32>, tensor<5x3xf32>) -> ()
}
// CHECK: %[[L:.+]]:2 = "burn.loop"(%{{.+}}, %arg0) ({
// CHECK-NOT: burn.exp
// CHECK: "burn.add"(%{{.+}}, %arg1)
// CHECK: scans = 1
// CHECK: "burn.return"(%[[L]]#1, %[[L]]#1)

// ----- a value that another result or the condition depends on stays
func.func @main(%x: tensor<f32>, %y: tensor<f32>) -> tensor<f32> {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 5.0 : f64} : () -> tensor<i64>
  %0:2 = "burn.loop"(%n, %x, %y) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %a: tensor<f32>, %b: tensor<f32>):
    %1 = "burn.exp"(%a) : (tensor<f32>) -> tensor<f32>
    %2 = "burn.sub"(%b, %a) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    "burn.yield"(%go, %1, %2) : (tensor<i1>, tensor<f32>, tensor<f32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 2>, symbols = []} : (tensor<i64>, tensor<f32>, tensor<f32>) -> (tensor<f32>, tensor<f32>)
  "burn.return"(%0#1) : (tensor<f32>) -> ()
}
// CHECK: "burn.loop"(%{{.+}}, %arg0, %arg1)
// CHECK: burn.exp
