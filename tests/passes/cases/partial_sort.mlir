// passes: partial_sort

// ----- the first elements, of which the indices are read
func.func @main(%x: tensor<4x100xf32>) -> tensor<4x10xi64> {
  %v, %i = "burn.sort"(%x) {axis = 1 : i64, descending = true} : (tensor<4x100xf32>) -> (tensor<4x100xf32>, tensor<4x100xi64>)
  %0 = "burn.slice"(%i) {starts = ["0", "0"], sizes = ["4", "10"], steps = array<i64: 1, 1>} : (tensor<4x100xi64>) -> tensor<4x10xi64>
  "burn.return"(%0) : (tensor<4x10xi64>) -> ()
}
// CHECK: %[[V:.+]]:2 = "burn.partial_sort"(%arg0)
// CHECK-SAME: axis = 1
// CHECK-SAME: descending = true
// CHECK-SAME: size = "10"
// CHECK-SAME: start = "0"
// CHECK-NOT: burn.slice
// CHECK: "burn.return"(%[[V]]#1)

// ----- one window for slices of both results; one of them has a step and takes some rows
func.func @main(%x: tensor<4x100xf32>) -> (tensor<4x3xf32>, tensor<2x2xi64>) {
  %v, %i = "burn.sort"(%x) {axis = 1 : i64, descending = false} : (tensor<4x100xf32>) -> (tensor<4x100xf32>, tensor<4x100xi64>)
  %0 = "burn.slice"(%v) {starts = ["0", "24"], sizes = ["4", "3"], steps = array<i64: 1, -2>} : (tensor<4x100xf32>) -> tensor<4x3xf32>
  %1 = "burn.slice"(%i) {starts = ["1", "25"], sizes = ["2", "2"], steps = array<i64: 1, 1>} : (tensor<4x100xi64>) -> tensor<2x2xi64>
  "burn.return"(%0, %1) : (tensor<4x3xf32>, tensor<2x2xi64>) -> ()
}
// CHECK: %[[V:.+]]:2 = "burn.partial_sort"(%arg0)
// CHECK-SAME: size = "7"
// CHECK-SAME: start = "20"
// CHECK: "burn.slice"(%[[V]]#0)
// CHECK-SAME: starts = ["0", "4"], steps = array<i64: 1, -2>
// CHECK: "burn.slice"(%[[V]]#1)
// CHECK-SAME: starts = ["1", "5"]

// ----- two windows that are far from each other
func.func @main(%x: tensor<100xf32>) -> (tensor<1xf32>, tensor<1xf32>) {
  %v, %i = "burn.sort"(%x) {axis = 0 : i64, descending = false} : (tensor<100xf32>) -> (tensor<100xf32>, tensor<100xi64>)
  %0 = "burn.slice"(%v) {starts = ["10"], sizes = ["1"], steps = array<i64: 1>} : (tensor<100xf32>) -> tensor<1xf32>
  %1 = "burn.slice"(%v) {starts = ["99"], sizes = ["1"], steps = array<i64: 1>} : (tensor<100xf32>) -> tensor<1xf32>
  "burn.return"(%0, %1) : (tensor<1xf32>, tensor<1xf32>) -> ()
}
// CHECK-COUNT-2: "burn.partial_sort"(%arg0)
// CHECK-NOT: burn.sort

// ----- a dynamic number of elements
func.func @main(%x: tensor<?xf32, ["n"]>, %y: tensor<?xf32, ["k"]>) -> tensor<?xf32, ["k"]> {
  %v, %i = "burn.sort"(%x) {axis = 0 : i64, descending = true} : (tensor<?xf32, ["n"]>) -> (tensor<?xf32, ["n"]>, tensor<?xi64, ["n"]>)
  %0 = "burn.slice"(%v) {starts = ["0"], sizes = ["k"], steps = array<i64: 1>} : (tensor<?xf32, ["n"]>) -> tensor<?xf32, ["k"]>
  "burn.return"(%0) : (tensor<?xf32, ["k"]>) -> ()
}
// CHECK: "burn.partial_sort"(%arg0)
// CHECK-SAME: size = "k"

// ----- a sort of which most elements are read, or a whole result, stays
func.func @main(%x: tensor<100xf32>) -> (tensor<60xf32>, tensor<100xi64>, tensor<1xf32>) {
  %v, %i = "burn.sort"(%x) {axis = 0 : i64, descending = false} : (tensor<100xf32>) -> (tensor<100xf32>, tensor<100xi64>)
  %0 = "burn.slice"(%v) {starts = ["0"], sizes = ["60"], steps = array<i64: 1>} : (tensor<100xf32>) -> tensor<60xf32>
  %w, %j = "burn.sort"(%x) {axis = 0 : i64, descending = true} : (tensor<100xf32>) -> (tensor<100xf32>, tensor<100xi64>)
  %1 = "burn.slice"(%w) {starts = ["0"], sizes = ["1"], steps = array<i64: 1>} : (tensor<100xf32>) -> tensor<1xf32>
  "burn.return"(%0, %j, %1) : (tensor<60xf32>, tensor<100xi64>, tensor<1xf32>) -> ()
}
// CHECK-COUNT-2: "burn.sort"(%arg0)
// CHECK-NOT: burn.partial_sort

// ----- a sort that nothing reads stays
func.func @main(%x: tensor<100xf32>) -> tensor<100xf32> {
  %v, %i = "burn.sort"(%x) {axis = 0 : i64, descending = false} : (tensor<100xf32>) -> (tensor<100xf32>, tensor<100xi64>)
  "burn.return"(%x) : (tensor<100xf32>) -> ()
}
// CHECK: "burn.sort"(%arg0)
// CHECK-NOT: burn.partial_sort
