// passes: split_trees

// ----- deep trees are walked apart
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x128xi32> {
  %n = "burn.full"() {dtype = "int32", shape = ["4", "2"], value = 0.0 : f64} : () -> tensor<4x2xi32>
  %r = "burn.full"() {dtype = "int32", shape = ["128"], value = 1.0 : f64} : () -> tensor<128xi32>
  %0 = "burn.tree_leaves"(%x, %n, %r) {depths = array<i64: 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1>, features = 2 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x2xf32>, tensor<4x2xi32>, tensor<128xi32>) -> tensor<1x128xi32>
  "burn.return"(%0) : (tensor<1x128xi32>) -> ()
}
// CHECK: %[[DEEP:.+]] = "burn.slice"(%{{.+}}) {{.*}}sizes = ["32"]
// CHECK: %[[A:.+]] = "burn.tree_leaves"(%arg0, %{{.+}}, %[[DEEP]])
// CHECK: %[[FLAT:.+]] = "burn.slice"(%{{.+}}) {{.*}}sizes = ["96"]
// CHECK: %[[B:.+]] = "burn.tree_leaves"(%arg0, %{{.+}}, %[[FLAT]])
// CHECK: "burn.concat"(%[[A]], %[[B]])

// ----- an ensemble of one depth stays
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x64xi32> {
  %n = "burn.full"() {dtype = "int32", shape = ["4", "2"], value = 0.0 : f64} : () -> tensor<4x2xi32>
  %r = "burn.full"() {dtype = "int32", shape = ["64"], value = 1.0 : f64} : () -> tensor<64xi32>
  %0 = "burn.tree_leaves"(%x, %n, %r) {depths = array<i64: 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3>, features = 2 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x2xf32>, tensor<4x2xi32>, tensor<64xi32>) -> tensor<1x64xi32>
  "burn.return"(%0) : (tensor<1x64xi32>) -> ()
}
// CHECK-NOT: "burn.concat"

// ----- an ensemble that fills one vector stays
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x10xi32> {
  %n = "burn.full"() {dtype = "int32", shape = ["4", "2"], value = 0.0 : f64} : () -> tensor<4x2xi32>
  %r = "burn.full"() {dtype = "int32", shape = ["10"], value = 1.0 : f64} : () -> tensor<10xi32>
  %0 = "burn.tree_leaves"(%x, %n, %r) {depths = array<i64: 9, 1, 1, 1, 1, 1, 1, 1, 1, 1>, features = 2 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x2xf32>, tensor<4x2xi32>, tensor<10xi32>) -> tensor<1x10xi32>
  "burn.return"(%0) : (tensor<1x10xi32>) -> ()
}
// CHECK-NOT: "burn.concat"
