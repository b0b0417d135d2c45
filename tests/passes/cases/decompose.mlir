// passes: decompose

// ----- a composite becomes primitives, with the composites inside it
func.func @main(%x: tensor<?x10xf32, ["n", "10"]>) -> tensor<?x10xf32, ["n", "10"]> {
  %0 = "burn.log_softmax"(%x) {axis = -1 : i64} : (tensor<?x10xf32, ["n", "10"]>) -> tensor<?x10xf32, ["n", "10"]>
  "burn.return"(%0) : (tensor<?x10xf32, ["n", "10"]>) -> ()
}
// CHECK-NOT: burn.log_softmax
// CHECK: burn.reduce
// CHECK-SAME: kind = "max"
// CHECK: burn.exp
// CHECK: burn.reduce
// CHECK-SAME: kind = "sum"
// CHECK: burn.log
// CHECK: burn.return
