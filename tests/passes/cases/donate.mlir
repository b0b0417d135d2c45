// passes: decompose,fuse,donate

// ----- an input that is read just where the output is written gives its memory
func.func @main(%x: tensor<6x4xf32> {burn.given_up}, %y: tensor<6x4xf32>) -> tensor<6x4xf32> {
  %0 = "burn.mul"(%x, %y) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %1 = "burn.add"(%0, %x) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  "burn.return"(%1) : (tensor<6x4xf32>) -> ()
}
// CHECK: burn.return
// CHECK-SAME: takes = array<i64: 0>

// ----- only what is given up is taken
func.func @main(%x: tensor<6x4xf32>, %y: tensor<6x4xf32> {burn.given_up}) -> (tensor<6x4xf32>, tensor<6x4xf32>) {
  %0 = "burn.mul"(%x, %y) : (tensor<6x4xf32>, tensor<6x4xf32>) -> tensor<6x4xf32>
  %1 = "burn.exp"(%0) : (tensor<6x4xf32>) -> tensor<6x4xf32>
  "burn.return"(%0, %1) : (tensor<6x4xf32>, tensor<6x4xf32>) -> ()
}
// CHECK: burn.return
// CHECK-SAME: takes = array<i64: 1, -1>

// ----- one that is read at another place of the kernel does not
func.func @main(%x: tensor<4x4xf32> {burn.given_up}) -> tensor<4x4xf32> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 1, 0>} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "burn.add"(%0, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%1) : (tensor<4x4xf32>) -> ()
}
// CHECK: burn.return
// CHECK-SAME: takes = array<i64: -1>

// ----- nor one that a reduction reads as a whole
func.func @main(%x: tensor<4x4xf32> {burn.given_up}) -> tensor<4x4xf32> {
  %0 = "burn.cumulative"(%x) {axis = 0 : i64, kind = "sum", exclusive = false, reverse = true} : (tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%0) : (tensor<4x4xf32>) -> ()
}
// CHECK: burn.return
// CHECK-SAME: takes = array<i64: -1>

// ----- nor one that a later op reads, but one that was read before
func.func @main(%x: tensor<5xf32> {burn.given_up}, %y: tensor<5xf32> {burn.given_up}) -> (tensor<5xf32>, tensor<5xf32>) {
  %0:2 = "burn.sort"(%y) {axis = 0 : i64, descending = false} : (tensor<5xf32>) -> (tensor<5xf32>, tensor<5xi64>)
  %1 = "burn.cumulative"(%0#0) {axis = 0 : i64, kind = "sum", exclusive = false, reverse = false} : (tensor<5xf32>) -> tensor<5xf32>
  %2 = "burn.cumulative"(%x) {axis = 0 : i64, kind = "sum", exclusive = false, reverse = false} : (tensor<5xf32>) -> tensor<5xf32>
  %3 = "burn.sub"(%2, %1) : (tensor<5xf32>, tensor<5xf32>) -> tensor<5xf32>
  "burn.return"(%1, %3) : (tensor<5xf32>, tensor<5xf32>) -> ()
}
// CHECK: burn.return
// CHECK-SAME: takes = array<i64: 1, 0>

// ----- nor one that is returned as it is, or has another size
func.func @main(%x: tensor<6xf32> {burn.given_up}, %y: tensor<3xf32> {burn.given_up}) -> (tensor<6xf32>, tensor<6xf32>) {
  %0 = "burn.neg"(%x) : (tensor<6xf32>) -> tensor<6xf32>
  "burn.return"(%x, %0) : (tensor<6xf32>, tensor<6xf32>) -> ()
}
// CHECK: burn.return
// CHECK-SAME: takes = array<i64: -1, -1>

// ----- updates are written over what they update: its copy is of each element to its own place
func.func @main(%x: tensor<6x4xf32> {burn.given_up}, %i: tensor<1x4xi64>, %u: tensor<1x4xf32>) -> tensor<6x4xf32> {
  %0 = "burn.scatter_elements"(%x, %i, %u) {axis = 0 : i64, reduction = "none"} : (tensor<6x4xf32>, tensor<1x4xi64>, tensor<1x4xf32>) -> tensor<6x4xf32>
  "burn.return"(%0) : (tensor<6x4xf32>) -> ()
}
// CHECK: burn.return
// CHECK-SAME: takes = array<i64: 0>

// ----- but not where the updates are read from there
func.func @main(%x: tensor<4x4xf32> {burn.given_up}, %i: tensor<4x4xi64>) -> tensor<4x4xf32> {
  %0 = "burn.scatter_elements"(%x, %i, %x) {axis = 0 : i64, reduction = "none"} : (tensor<4x4xf32>, tensor<4x4xi64>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%0) : (tensor<4x4xf32>) -> ()
}
// CHECK: burn.return
// CHECK-SAME: takes = array<i64: -1>
