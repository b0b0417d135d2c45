// passes: fix_sizes,simplify

// ----- behind a check that the batch is 3, a mask of 3 rows needs no broadcast, and its gradient no sum
func.func @main(%x: tensor<?x4xf32, ["batch", "4"]>, %m: tensor<3x1xf32>) -> tensor<?x4xf32, ["batch", "4"]> {
  "burn.check_size"() {bound = "3", relation = "==", says = "a size of 'x'", size = "batch"} : () -> ()
  %0 = "burn.mul"(%x, %m) : (tensor<?x4xf32, ["batch", "4"]>, tensor<3x1xf32>) -> tensor<3x4xf32>
  %1 = "burn.reshape"(%0) {shape = ["batch", "(3 // batch)", "4"]} : (tensor<3x4xf32>) -> tensor<?x?x4xf32, ["batch", "(3 // batch)", "4"]>
  %2 = "burn.reduce"(%1) {axes = array<i64: 1>, keepdims = false, kind = "sum"} : (tensor<?x?x4xf32, ["batch", "(3 // batch)", "4"]>) -> tensor<?x4xf32, ["batch", "4"]>
  "burn.return"(%2) : (tensor<?x4xf32, ["batch", "4"]>) -> ()
}
// CHECK: func.func @main(%arg0: tensor<?x4xf32, ["batch", "4"]>
// CHECK: %[[VIEW:.+]] = "burn.reshape"(%arg0) {shape = ["3", "4"]}
// CHECK: "burn.check_size"() {bound = "3"{{.*}}size = "batch"
// CHECK: %[[PRODUCT:.+]] = "burn.mul"(%[[VIEW]], %arg1) : {{.*}} -> tensor<3x4xf32>
// CHECK-NOT: burn.reduce
// CHECK: "burn.return"(%[[PRODUCT]])

// ----- a size that is only bounded, or compared with another, stays
func.func @main(%x: tensor<?x?xf32, ["n", "m"]>) -> tensor<?x?xf32, ["n", "m"]> {
  "burn.check_size"() {bound = "n + m", relation = "!=", says = "", size = "n"} : () -> ()
  "burn.check_size"() {bound = "8", relation = "<=", says = "", size = "n"} : () -> ()
  %0 = "burn.exp"(%x) : (tensor<?x?xf32, ["n", "m"]>) -> tensor<?x?xf32, ["n", "m"]>
  "burn.return"(%0) : (tensor<?x?xf32, ["n", "m"]>) -> ()
}
// CHECK-NOT: burn.reshape
// CHECK: "burn.exp"(%arg0) : {{.*}} -> tensor<?x?xf32, ["n", "m"]>
