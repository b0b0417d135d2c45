// passes: loop_slices

// ----- slices at the counter, and from the last one on, begin at a size
func.func @main(%x: tensor<5x3xf32>, %s: tensor<3xf32>) -> tensor<3xf32> {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 5.0 : f64} : () -> tensor<i64>
  %last = "burn.full"() {dtype = "int64", shape = [], value = 4.0 : f64} : () -> tensor<i64>
  %0 = "burn.loop"(%n, %s) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %a: tensor<3xf32>):
    %1 = "burn.gather"(%x, %i) {axis = 0 : i64} : (tensor<5x3xf32>, tensor<i64>) -> tensor<3xf32>
    %2 = "burn.sub"(%last, %i) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %3 = "burn.gather"(%x, %2) {axis = 0 : i64} : (tensor<5x3xf32>, tensor<i64>) -> tensor<3xf32>
    %4 = "burn.mul"(%1, %3) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %5 = "burn.add"(%a, %4) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "burn.yield"(%go, %5) : (tensor<i1>, tensor<3xf32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<3xf32>) -> tensor<3xf32>
  "burn.return"(%0) : (tensor<3xf32>) -> ()
}
// CHECK: "burn.read_dim"(%[[I:.+]]) {
// CHECK-SAME: symbol = "iteration_0"
// CHECK: "burn.slice"
// CHECK-SAME: starts = ["min(4, iteration_0)", "0"]
// CHECK: "burn.slice"
// CHECK-SAME: starts = ["max(-iteration_0 + 4, 0)", "0"]
// CHECK-NOT: burn.gather

// ----- an index that is no counter plus a number stays, and so does one that may be beyond the axis
func.func @main(%x: tensor<5x3xf32>, %y: tensor<6x3xf32>, %s: tensor<3xf32>) -> tensor<3xf32> {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 6.0 : f64} : () -> tensor<i64>
  %last = "burn.full"() {dtype = "int64", shape = [], value = 4.0 : f64} : () -> tensor<i64>
  %two = "burn.full"() {dtype = "int64", shape = [], value = 2.0 : f64} : () -> tensor<i64>
  %0 = "burn.loop"(%n, %s) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %a: tensor<3xf32>):
    %1 = "burn.div"(%i, %two) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %2 = "burn.gather"(%x, %1) {axis = 0 : i64} : (tensor<5x3xf32>, tensor<i64>) -> tensor<3xf32>
    %3 = "burn.sub"(%last, %i) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %4 = "burn.gather"(%x, %3) {axis = 0 : i64} : (tensor<5x3xf32>, tensor<i64>) -> tensor<3xf32>
    %5 = "burn.add"(%2, %4) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %7 = "burn.gather"(%y, %i) {axis = 0 : i64} : (tensor<6x3xf32>, tensor<i64>) -> tensor<3xf32>
    %8 = "burn.mul"(%a, %7) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %6 = "burn.add"(%8, %5) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "burn.yield"(%go, %6) : (tensor<i1>, tensor<3xf32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<3xf32>) -> tensor<3xf32>
  "burn.return"(%0) : (tensor<3xf32>) -> ()
}
// CHECK: burn.gather
// CHECK: burn.gather
// CHECK: "burn.slice"
// CHECK-SAME: starts = ["min(5, iteration_0)", "0"]
// CHECK-NOT: burn.gather
