// passes: simplify

// ----- reduction over ones
func.func @main(%x: tensor<?x1xf32, ["n", "1"]>) -> tensor<?xf32, ["n"]> {
  %0 = "burn.reduce"(%x) {axes = array<i64: -1>, keepdims = false, kind = "sum"} : (tensor<?x1xf32, ["n", "1"]>) -> tensor<?xf32, ["n"]>
  "burn.return"(%0) : (tensor<?xf32, ["n"]>) -> ()
}
// CHECK: "burn.reshape"
// CHECK-NOT: burn.reduce

// ----- sum of sums
// rounds
func.func @main(%x: tensor<?x3x4x5xf32, ["n", "3", "4", "5"]>) -> tensor<?x4xf32, ["n", "4"]> {
  %0 = "burn.reduce"(%x) {axes = array<i64: 1>, keepdims = false, kind = "sum"} : (tensor<?x3x4x5xf32, ["n", "3", "4", "5"]>) -> tensor<?x4x5xf32, ["n", "4", "5"]>
  %1 = "burn.reduce"(%0) {axes = array<i64: -1>, keepdims = false, kind = "sum"} : (tensor<?x4x5xf32, ["n", "4", "5"]>) -> tensor<?x4xf32, ["n", "4"]>
  "burn.return"(%1) : (tensor<?x4xf32, ["n", "4"]>) -> ()
}
// CHECK-COUNT-1: "burn.reduce"(%arg0) {axes = array<i64: 1, 3>
// CHECK-NEXT: burn.reshape
// CHECK-NEXT: burn.return

// ----- maximum of maxima, axes kept in one of them
// inputs: special
func.func @main(%x: tensor<3x4x5xf32>) -> tensor<1x5xf32> {
  %0 = "burn.reduce"(%x) {axes = array<i64: 0>, keepdims = true, kind = "max"} : (tensor<3x4x5xf32>) -> tensor<1x4x5xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 1>, keepdims = false, kind = "max"} : (tensor<1x4x5xf32>) -> tensor<1x5xf32>
  "burn.return"(%1) : (tensor<1x5xf32>) -> ()
}
// CHECK: "burn.reduce"(%arg0) {axes = array<i64: 0, 1>
// CHECK-NEXT: "burn.reshape"
// CHECK-NEXT: "burn.return"

// ----- maximum of sums stays
func.func @main(%x: tensor<3x4xf32>) -> tensor<f32> {
  %0 = "burn.reduce"(%x) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<3x4xf32>) -> tensor<4xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 0>, keepdims = false, kind = "max"} : (tensor<4xf32>) -> tensor<f32>
  "burn.return"(%1) : (tensor<f32>) -> ()
}
// CHECK-COUNT-2: burn.reduce

// ----- padding in front of a window
func.func @main(%x: tensor<1x5xf32>) -> tensor<1x4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %0 = "burn.pad"(%x, %a) {high = ["0", "2"], interior = array<i64>, low = ["0", "1"]} : (tensor<1x5xf32>, tensor<f32>) -> tensor<1x8xf32>
  %1 = "burn.window_reduce"(%0) {dilations = array<i64: 1, 1>, high = ["0", "0"], kind = "sum", low = ["0", "1"], strides = array<i64: 1, 2>, window = array<i64: 1, 3>} : (tensor<1x8xf32>) -> tensor<1x4xf32>
  "burn.return"(%1) : (tensor<1x4xf32>) -> ()
}
// CHECK: "burn.window_reduce"(%arg0) {{.*}}high = ["0", "2"], kind = "sum", low = ["0", "2"]
// CHECK-NOT: burn.pad

// ----- zeros in front of a maximum stay: stays
func.func @main(%x: tensor<1x5xf32>) -> tensor<1x4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 0.0 : f64} : () -> tensor<f32>
  %0 = "burn.pad"(%x, %a) {high = ["0", "2"], interior = array<i64>, low = ["0", "1"]} : (tensor<1x5xf32>, tensor<f32>) -> tensor<1x8xf32>
  %1 = "burn.window_reduce"(%0) {dilations = array<i64: 1, 1>, high = ["0", "0"], kind = "max", low = ["0", "1"], strides = array<i64: 1, 2>, window = array<i64: 1, 3>} : (tensor<1x8xf32>) -> tensor<1x4xf32>
  "burn.return"(%1) : (tensor<1x4xf32>) -> ()
}
// CHECK: burn.pad

// ----- a sum of deviations from a mean, of tensors that are summed anyway
// rounds
func.func @main(%x: tensor<?x5xf32, ["n", "5"]>, %g: tensor<?x5xf32, ["n", "5"]>, %k: tensor<f32>, %c: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<?x5xf32, ["n", "5"]>) {
  %0 = "burn.reduce"(%x) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<?x5xf32, ["n", "5"]>) -> tensor<5xf32>
  %1 = "burn.reduce"(%g) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<?x5xf32, ["n", "5"]>) -> tensor<5xf32>
  %m = "burn.div"(%0, %k) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %2 = "burn.sub"(%x, %m) : (tensor<?x5xf32, ["n", "5"]>, tensor<5xf32>) -> tensor<?x5xf32, ["n", "5"]>
  %3 = "burn.mul"(%2, %c) : (tensor<?x5xf32, ["n", "5"]>, tensor<5xf32>) -> tensor<?x5xf32, ["n", "5"]>
  %4 = "burn.add"(%g, %3) : (tensor<?x5xf32, ["n", "5"]>, tensor<?x5xf32, ["n", "5"]>) -> tensor<?x5xf32, ["n", "5"]>
  %5 = "burn.neg"(%4) : (tensor<?x5xf32, ["n", "5"]>) -> tensor<?x5xf32, ["n", "5"]>
  %6 = "burn.reduce"(%5) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<?x5xf32, ["n", "5"]>) -> tensor<5xf32>
  "burn.return"(%0, %1, %6, %4) : (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<?x5xf32, ["n", "5"]>) -> ()
}
// CHECK: "burn.reduce"(%arg0)
// CHECK: "burn.reduce"(%arg1)
// CHECK: "burn.dim_values"
// CHECK-NOT: burn.reduce
// CHECK: burn.return

// ----- the same if the other term is itself a sum of two tensors: the gradients of two branches
// rounds
func.func @main(%x: tensor<7x5xf32>, %a: tensor<7x5xf32>, %b: tensor<7x5xf32>, %k: tensor<f32>, %c: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<7x5xf32>) {
  %0 = "burn.reduce"(%x) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<7x5xf32>) -> tensor<5xf32>
  %g = "burn.add"(%a, %b) : (tensor<7x5xf32>, tensor<7x5xf32>) -> tensor<7x5xf32>
  %1 = "burn.reduce"(%g) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<7x5xf32>) -> tensor<5xf32>
  %m = "burn.div"(%0, %k) : (tensor<5xf32>, tensor<f32>) -> tensor<5xf32>
  %2 = "burn.sub"(%x, %m) : (tensor<7x5xf32>, tensor<5xf32>) -> tensor<7x5xf32>
  %3 = "burn.mul"(%2, %c) : (tensor<7x5xf32>, tensor<5xf32>) -> tensor<7x5xf32>
  %4 = "burn.add"(%g, %3) : (tensor<7x5xf32>, tensor<7x5xf32>) -> tensor<7x5xf32>
  %5 = "burn.neg"(%4) : (tensor<7x5xf32>) -> tensor<7x5xf32>
  %6 = "burn.reduce"(%5) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<7x5xf32>) -> tensor<5xf32>
  "burn.return"(%0, %1, %6, %4) : (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>, tensor<7x5xf32>) -> ()
}
// CHECK-COUNT-2: burn.reduce
// CHECK-NOT: burn.reduce

// ----- deviations from another number than the mean would cancel, stays
func.func @main(%x: tensor<7x5xf32>, %m: tensor<5xf32>) -> (tensor<5xf32>, tensor<5xf32>) {
  %0 = "burn.reduce"(%x) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<7x5xf32>) -> tensor<5xf32>
  %1 = "burn.sub"(%x, %m) : (tensor<7x5xf32>, tensor<5xf32>) -> tensor<7x5xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<7x5xf32>) -> tensor<5xf32>
  "burn.return"(%0, %2) : (tensor<5xf32>, tensor<5xf32>) -> ()
}
// CHECK-COUNT-2: burn.reduce

// ----- a sum of differences of two tensors stays
func.func @main(%x: tensor<7x5xf32>, %g: tensor<7x5xf32>) -> (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) {
  %0 = "burn.reduce"(%x) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<7x5xf32>) -> tensor<5xf32>
  %1 = "burn.reduce"(%g) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<7x5xf32>) -> tensor<5xf32>
  %2 = "burn.sub"(%x, %g) : (tensor<7x5xf32>, tensor<7x5xf32>) -> tensor<7x5xf32>
  %3 = "burn.reduce"(%2) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<7x5xf32>) -> tensor<5xf32>
  "burn.return"(%0, %1, %3) : (tensor<5xf32>, tensor<5xf32>, tensor<5xf32>) -> ()
}
// CHECK-COUNT-3: burn.reduce

// ----- a sum of deviations of a tensor whose sum nothing needs stays
func.func @main(%x: tensor<7x5xf32>, %m: tensor<5xf32>) -> tensor<5xf32> {
  %0 = "burn.sub"(%x, %m) : (tensor<7x5xf32>, tensor<5xf32>) -> tensor<7x5xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<7x5xf32>) -> tensor<5xf32>
  "burn.return"(%1) : (tensor<5xf32>) -> ()
}
// CHECK: burn.sub
// CHECK: burn.reduce

// ----- a sum of repeated elements
// rounds
func.func @main(%x: tensor<?x3x1x1xf32, ["n", "3", "1", "1"]>) -> tensor<?x1x1x1xf32, ["n", "1", "1", "1"]> {
  %0 = "burn.broadcast_to"(%x) {shape = ["n", "3", "7", "5"]} : (tensor<?x3x1x1xf32, ["n", "3", "1", "1"]>) -> tensor<?x3x7x5xf32, ["n", "3", "7", "5"]>
  %1 = "burn.reduce"(%0) {axes = array<i64: 1, 2, 3>, keepdims = true, kind = "sum"} : (tensor<?x3x7x5xf32, ["n", "3", "7", "5"]>) -> tensor<?x1x1x1xf32, ["n", "1", "1", "1"]>
  "burn.return"(%1) : (tensor<?x1x1x1xf32, ["n", "1", "1", "1"]>) -> ()
}
// CHECK-NOT: burn.broadcast_to
// CHECK: "burn.reduce"
// CHECK: value = 3.500000e+01
// CHECK: burn.mul

// ----- a sum of elements of half precision that are repeated more often than its largest number
// rounds
func.func @main(%x: tensor<2x1xf16>) -> tensor<f16> {
  %0 = "burn.broadcast_to"(%x) {shape = ["2", "70001"]} : (tensor<2x1xf16>) -> tensor<2x70001xf16>
  %1 = "burn.reduce"(%0) {axes = array<i64: 0, 1>, keepdims = false, kind = "sum"} : (tensor<2x70001xf16>) -> tensor<f16>
  "burn.return"(%1) : (tensor<f16>) -> ()
}
// CHECK: dtype = "float32", shape = [], value = 7.000100e+04
// CHECK: burn.mul

// ----- the largest of repeated elements
// inputs: special
func.func @main(%x: tensor<3x4xf32>) -> tensor<3xf32> {
  %0 = "burn.reshape"(%x) {shape = ["3", "4", "1"]} : (tensor<3x4xf32>) -> tensor<3x4x1xf32>
  %1 = "burn.broadcast_to"(%0) {shape = ["3", "4", "6"]} : (tensor<3x4x1xf32>) -> tensor<3x4x6xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 1, 2>, keepdims = false, kind = "max"} : (tensor<3x4x6xf32>) -> tensor<3xf32>
  "burn.return"(%2) : (tensor<3xf32>) -> ()
}
// CHECK-NOT: burn.broadcast_to
// CHECK: kind = "max"

// ----- repeated elements of an axis that may be empty, and products: stays
func.func @main(%x: tensor<3x1xf32>, %n: tensor<?xf32, ["n"]>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = "burn.broadcast_to"(%x) {shape = ["3", "n"]} : (tensor<3x1xf32>) -> tensor<3x?xf32, ["3", "n"]>
  %1 = "burn.reduce"(%0) {axes = array<i64: 1>, keepdims = false, kind = "max"} : (tensor<3x?xf32, ["3", "n"]>) -> tensor<3xf32>
  %2 = "burn.broadcast_to"(%x) {shape = ["3", "4"]} : (tensor<3x1xf32>) -> tensor<3x4xf32>
  %3 = "burn.reduce"(%2) {axes = array<i64: 1>, keepdims = false, kind = "prod"} : (tensor<3x4xf32>) -> tensor<3xf32>
  "burn.return"(%1, %3) : (tensor<3xf32>, tensor<3xf32>) -> ()
}
// CHECK-COUNT-2: burn.broadcast_to
