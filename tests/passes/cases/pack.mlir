// passes: pack{vector-bytes=32 byte-run=4}

// ----- a constant right side becomes panels of two vectors, filled up with zeros
// rounds
func.func @main(%x: tensor<?x7xf32, ["n", "7"]>) -> tensor<?x21xf32, ["n", "21"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["7", "21"]} : () -> tensor<7x21xf32>
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x7xf32, ["n", "7"]>, tensor<7x21xf32>) -> tensor<?x21xf32, ["n", "21"]>
  "burn.return"(%0) : (tensor<?x21xf32, ["n", "21"]>) -> ()
}
// CHECK: burn.pad
// CHECK: burn.reshape
// CHECK-SAME: tensor<7x2x16xf32>
// CHECK: burn.packed_dot
// CHECK-SAME: columns = 21
// CHECK-SAME: tensor<2x7x16xf32>

// ----- a left side whose depth only the run tells meets the panels all the same
// rounds
func.func @main(%x: tensor<3x?xf32, ["3", "k"]>) -> tensor<3x5xf32> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "5"]} : () -> tensor<3x5xf32>
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<3x?xf32, ["3", "k"]>, tensor<3x5xf32>) -> tensor<3x5xf32>
  "burn.return"(%0) : (tensor<3x5xf32>) -> ()
}
// CHECK: burn.packed_dot
// CHECK-SAME: columns = 5

// ----- and so do bytes, which runs could not go through evenly
// large
func.func @main(%x: tensor<3x?xui8, ["3", "k"]>) -> tensor<3x5xi32> {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["3", "5"]} : () -> tensor<3x5xi8>
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>, dtype = "int32"} : (tensor<3x?xui8, ["3", "k"]>, tensor<3x5xi8>) -> tensor<3x5xi32>
  "burn.return"(%0) : (tensor<3x5xi32>) -> ()
}
// CHECK: burn.packed_dot
// CHECK-NOT: interleaved
// CHECK-SAME: columns = 5

// ----- a computed right side of known sizes is packed where it is made
// rounds
func.func @main(%x: tensor<3x4xf32>, %y: tensor<5x4xf32>) -> tensor<3x5xf32> {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>
  "burn.return"(%0) : (tensor<3x5xf32>) -> ()
}
// CHECK: burn.pad
// CHECK: burn.transpose
// CHECK: burn.packed_dot
// CHECK-SAME: columns = 5

// ----- one whose sizes only the run tells gets its columns last
// rounds
func.func @main(%x: tensor<3x4xf32>, %y: tensor<?x4xf32, ["n", "4"]>) -> tensor<3x?xf32, ["3", "n"]> {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<3x4xf32>, tensor<?x4xf32, ["n", "4"]>) -> tensor<3x?xf32, ["3", "n"]>
  "burn.return"(%0) : (tensor<3x?xf32, ["3", "n"]>) -> ()
}
// CHECK: burn.transpose
// CHECK: burn.dot_general
// CHECK-SAME: rhs_contract = array<i64: 0>
// CHECK-NOT: packed

// ----- a computed right side whose columns lie side by side stays
func.func @main(%x: tensor<3x4xf32>, %y: tensor<4x5xf32>) -> tensor<3x5xf32> {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<3x4xf32>, tensor<4x5xf32>) -> tensor<3x5xf32>
  "burn.return"(%0) : (tensor<3x5xf32>) -> ()
}
// CHECK-NOT: burn.transpose
// CHECK-NOT: packed

// ----- two products share a right side that is turned once
// rounds
func.func @main(%x: tensor<3x4xf32>, %z: tensor<2x4xf32>, %y: tensor<5x4xf32>) -> (tensor<3x5xf32>, tensor<2x5xf32>) {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<3x4xf32>, tensor<5x4xf32>) -> tensor<3x5xf32>
  %1 = "burn.dot_general"(%z, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<2x4xf32>, tensor<5x4xf32>) -> tensor<2x5xf32>
  "burn.return"(%0, %1) : (tensor<3x5xf32>, tensor<2x5xf32>) -> ()
}
// CHECK-COUNT-1: burn.pad
// CHECK-NOT: burn.pad
// CHECK-COUNT-2: columns = 5

// ----- what a loop reads in every iteration is packed in front of it, through a view in the loop
// rounds
func.func @main(%x: tensor<3x4xf32>, %y: tensor<7x4xf32>) -> tensor<3x4xf32> {
  %t = "burn.full"() {bits = 3 : i64, dtype = "int64", shape = []} : () -> tensor<i64>
  %0 = "burn.loop"(%t, %x) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %a: tensor<3x4xf32>):
    %s = "burn.slice"(%y) {starts = ["2", "0"], sizes = ["4", "4"], steps = array<i64: 1, 1>} : (tensor<7x4xf32>) -> tensor<4x4xf32>
    %1 = "burn.dot_general"(%a, %s) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<3x4xf32>, tensor<4x4xf32>) -> tensor<3x4xf32>
    "burn.yield"(%c, %1) : (tensor<i1>, tensor<3x4xf32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<3x4xf32>) -> tensor<3x4xf32>
  "burn.return"(%0) : (tensor<3x4xf32>) -> ()
}
// CHECK: burn.slice
// CHECK: burn.pad
// CHECK: burn.loop
// CHECK-NOT: burn.slice
// CHECK: burn.packed_dot
// CHECK-SAME: columns = 4

// ----- and through a conversion there
// rounds
func.func @main(%x: tensor<3x4xbf16>, %y: tensor<7x4xf32>) -> tensor<3x4xbf16> {
  %t = "burn.full"() {bits = 3 : i64, dtype = "int64", shape = []} : () -> tensor<i64>
  %0 = "burn.loop"(%t, %x) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %a: tensor<3x4xbf16>):
    %s = "burn.slice"(%y) {starts = ["2", "0"], sizes = ["4", "4"], steps = array<i64: 1, 1>} : (tensor<7x4xf32>) -> tensor<4x4xf32>
    %h = "burn.cast"(%s) {dtype = "bfloat16", saturate = true} : (tensor<4x4xf32>) -> tensor<4x4xbf16>
    %1 = "burn.dot_general"(%a, %h) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<3x4xbf16>, tensor<4x4xbf16>) -> tensor<3x4xbf16>
    "burn.yield"(%c, %1) : (tensor<i1>, tensor<3x4xbf16>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<3x4xbf16>) -> tensor<3x4xbf16>
  "burn.return"(%0) : (tensor<3x4xbf16>) -> ()
}
// CHECK: burn.slice
// CHECK: burn.cast
// CHECK: burn.pad
// CHECK: burn.loop
// CHECK-NOT: burn.cast
// CHECK: burn.packed_dot
// CHECK-SAME: columns = 4

// ----- a right side that changes from one iteration to the next is packed in the loop
// rounds
func.func @main(%x: tensor<3x4xf32>, %y: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %t = "burn.full"() {bits = 3 : i64, dtype = "int64", shape = []} : () -> tensor<i64>
  %0 = "burn.loop"(%t, %y) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %a: tensor<4x4xf32>):
    %1 = "burn.dot_general"(%y, %a) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "burn.yield"(%c, %1) : (tensor<i1>, tensor<4x4xf32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<4x4xf32>) -> tensor<4x4xf32>
  "burn.return"(%0) : (tensor<4x4xf32>) -> ()
}
// CHECK: burn.loop
// CHECK: burn.transpose
// CHECK: burn.packed_dot
// CHECK-SAME: columns = 4

// ----- a right side too large for a cache is summed in runs of its first axis, batch by batch
// rounds
// large
func.func @main(%x: tensor<2x6x90x3xf64>, %y: tensor<2x6x90x250xf64>) -> tensor<3x250xf64> {
  %0 = "burn.dot_general"(%x, %y) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0, 1, 2>, rhs_contract = array<i64: 0, 1, 2>} : (tensor<2x6x90x3xf64>, tensor<2x6x90x250xf64>) -> tensor<3x250xf64>
  "burn.return"(%0) : (tensor<3x250xf64>) -> ()
}
// CHECK-DAG: -> tensor<2x3x2x90x3xf64>
// CHECK-DAG: -> tensor<2x3x2x90x250xf64>
// CHECK: burn.dot_general
// CHECK-SAME: lhs_batch = array<i64: 0, 1>
// CHECK-SAME: lhs_contract = array<i64: 2, 3>
// CHECK: -> tensor<2x3x3x250xf64>
// CHECK: burn.reduce
// CHECK-SAME: -> tensor<2x3x250xf64>
// CHECK: burn.reduce
// CHECK-SAME: -> tensor<3x250xf64>

// ----- a picture gets its border before it becomes channels-last, a line at a time
// rounds
func.func @main(%x: tensor<?x3x9x7xf32, ["n", "3", "9", "7"]>) -> tensor<?x5x4x4xf32, ["n", "5", "4", "4"]> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "3", "3", "5"]} : () -> tensor<3x3x3x5xf32>
  %0 = "burn.transpose"(%x) {permutation = array<i64: 0, 2, 3, 1>} : (tensor<?x3x9x7xf32, ["n", "3", "9", "7"]>) -> tensor<?x9x7x3xf32, ["n", "9", "7", "3"]>
  %1 = "burn.conv"(%0, %w) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, low = ["1", "0"], high = ["0", "2"], groups = 1 : i64, layout = "last"} : (tensor<?x9x7x3xf32, ["n", "9", "7", "3"]>, tensor<3x3x3x5xf32>) -> tensor<?x4x4x5xf32, ["n", "4", "4", "5"]>
  %2 = "burn.transpose"(%1) {permutation = array<i64: 0, 3, 1, 2>} : (tensor<?x4x4x5xf32, ["n", "4", "4", "5"]>) -> tensor<?x5x4x4xf32, ["n", "5", "4", "4"]>
  "burn.return"(%2) : (tensor<?x5x4x4xf32, ["n", "5", "4", "4"]>) -> ()
}
// CHECK: burn.pad
// CHECK: burn.pad
// CHECK-SAME: tensor<?x3x10x9xf32
// CHECK: burn.barrier
// CHECK: burn.transpose
// CHECK-SAME: tensor<?x10x9x3xf32
// CHECK: burn.packed_conv
// CHECK-SAME: columns = 5
// CHECK-SAME: high = ["0", "0"]
// CHECK-SAME: low = ["0", "0"]
