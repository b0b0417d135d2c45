// passes: simplify

// ----- concatenation of one
func.func @main(%x: tensor<4xf32>, %e: tensor<0xf32>) -> tensor<4xf32> {
  %0 = "burn.concat"(%e, %x) {axis = 0 : i64} : (tensor<0xf32>, tensor<4xf32>) -> tensor<4xf32>
  "burn.return"(%0) : (tensor<4xf32>) -> ()
}
// CHECK-NOT: burn.concat

// ----- concatenation of a concatenation
func.func @main(%x: tensor<2x?xf32, ["2", "n"]>, %y: tensor<2x3xf32>) -> tensor<2x?xf32, ["2", "2*n + 3"]> {
  %0 = "burn.concat"(%x, %y) {axis = 1 : i64} : (tensor<2x?xf32, ["2", "n"]>, tensor<2x3xf32>) -> tensor<2x?xf32, ["2", "n + 3"]>
  %1 = "burn.concat"(%0, %x) {axis = -1 : i64} : (tensor<2x?xf32, ["2", "n + 3"]>, tensor<2x?xf32, ["2", "n"]>) -> tensor<2x?xf32, ["2", "2*n + 3"]>
  "burn.return"(%1) : (tensor<2x?xf32, ["2", "2*n + 3"]>) -> ()
}
// CHECK: "burn.concat"(%arg0, %arg1, %arg0)
// CHECK-NEXT: burn.return

// ----- concatenation of neighbouring slices
func.func @main(%x: tensor<10xf32>) -> tensor<5xf32> {
  %0 = "burn.slice"(%x) {sizes = ["3"], starts = ["2"], steps = array<i64: 1>} : (tensor<10xf32>) -> tensor<3xf32>
  %1 = "burn.slice"(%x) {sizes = ["2"], starts = ["5"], steps = array<i64: 1>} : (tensor<10xf32>) -> tensor<2xf32>
  %2 = "burn.concat"(%0, %1) {axis = 0 : i64} : (tensor<3xf32>, tensor<2xf32>) -> tensor<5xf32>
  "burn.return"(%2) : (tensor<5xf32>) -> ()
}
// CHECK: "burn.slice"(%arg0) {sizes = ["5"], starts = ["2"]
// CHECK-NOT: burn.concat

// ----- concatenation of distant slices stays
func.func @main(%x: tensor<10xf32>) -> tensor<5xf32> {
  %0 = "burn.slice"(%x) {sizes = ["3"], starts = ["2"], steps = array<i64: 1>} : (tensor<10xf32>) -> tensor<3xf32>
  %1 = "burn.slice"(%x) {sizes = ["2"], starts = ["6"], steps = array<i64: 1>} : (tensor<10xf32>) -> tensor<2xf32>
  %2 = "burn.concat"(%0, %1) {axis = 0 : i64} : (tensor<3xf32>, tensor<2xf32>) -> tensor<5xf32>
  "burn.return"(%2) : (tensor<5xf32>) -> ()
}
// CHECK: burn.concat

// ----- slice of one part
func.func @main(%x: tensor<?x2xf32, ["n", "2"]>, %y: tensor<?x3xf32, ["n", "3"]>) -> tensor<?x2xf32, ["n", "2"]> {
  %0 = "burn.concat"(%x, %y) {axis = 1 : i64} : (tensor<?x2xf32, ["n", "2"]>, tensor<?x3xf32, ["n", "3"]>) -> tensor<?x5xf32, ["n", "5"]>
  %1 = "burn.slice"(%0) {sizes = ["n", "2"], starts = ["0", "3"], steps = array<i64: 1, 1>} : (tensor<?x5xf32, ["n", "5"]>) -> tensor<?x2xf32, ["n", "2"]>
  "burn.return"(%1) : (tensor<?x2xf32, ["n", "2"]>) -> ()
}
// CHECK: "burn.slice"(%arg1) {sizes = ["n", "2"], starts = ["0", "1"]
// CHECK-NEXT: burn.return

// ----- slice across parts stays
func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) -> tensor<2xf32> {
  %0 = "burn.concat"(%x, %y) {axis = 0 : i64} : (tensor<2xf32>, tensor<3xf32>) -> tensor<5xf32>
  %1 = "burn.slice"(%0) {sizes = ["2"], starts = ["1"], steps = array<i64: 1>} : (tensor<5xf32>) -> tensor<2xf32>
  "burn.return"(%1) : (tensor<2xf32>) -> ()
}
// CHECK: burn.concat

// ----- the whole of a part of symbolic size
func.func @main(%x: tensor<?xf32, ["n"]>, %y: tensor<?xf32, ["m"]>) -> tensor<?xf32, ["m"]> {
  %0 = "burn.concat"(%x, %y) {axis = 0 : i64} : (tensor<?xf32, ["n"]>, tensor<?xf32, ["m"]>) -> tensor<?xf32, ["m + n"]>
  %1 = "burn.slice"(%0) {sizes = ["m"], starts = ["n"], steps = array<i64: 1>} : (tensor<?xf32, ["m + n"]>) -> tensor<?xf32, ["m"]>
  "burn.return"(%1) : (tensor<?xf32, ["m"]>) -> ()
}
// CHECK: "burn.return"(%arg1)

// ----- the first element, where the first part may be empty, stays
func.func @main(%x: tensor<?xf32, ["n"]>, %y: tensor<3xf32>) -> tensor<1xf32> {
  %0 = "burn.concat"(%x, %y) {axis = 0 : i64} : (tensor<?xf32, ["n"]>, tensor<3xf32>) -> tensor<?xf32, ["n + 3"]>
  %1 = "burn.slice"(%0) {sizes = ["1"], starts = ["0"], steps = array<i64: 1>} : (tensor<?xf32, ["n + 3"]>) -> tensor<1xf32>
  "burn.return"(%1) : (tensor<1xf32>) -> ()
}
// CHECK: burn.concat
