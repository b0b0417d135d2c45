// passes: simplify

// ----- reshape of a reshape
func.func @main(%x: tensor<?x6xf32, ["n", "6"]>) -> tensor<?x3x2xf32, ["n", "3", "2"]> {
  %0 = "burn.reshape"(%x) {shape = ["6*n"]} : (tensor<?x6xf32, ["n", "6"]>) -> tensor<?xf32, ["6*n"]>
  %1 = "burn.reshape"(%0) {shape = ["n", "3", "2"]} : (tensor<?xf32, ["6*n"]>) -> tensor<?x3x2xf32, ["n", "3", "2"]>
  "burn.return"(%1) : (tensor<?x3x2xf32, ["n", "3", "2"]>) -> ()
}
// CHECK-COUNT-1: "burn.reshape"(%arg0)
// CHECK-NEXT: burn.return

// ----- reshape to the same shape
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = "burn.reshape"(%x) {shape = ["6"]} : (tensor<2x3xf32>) -> tensor<6xf32>
  %1 = "burn.reshape"(%0) {shape = ["2", "3"]} : (tensor<6xf32>) -> tensor<2x3xf32>
  "burn.return"(%1) : (tensor<2x3xf32>) -> ()
}
// CHECK-NOT: burn.reshape

// ----- transposes that cancel
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 2, 0, 1>} : (tensor<3x4x2xf32>) -> tensor<2x3x4xf32>
  "burn.return"(%1) : (tensor<2x3x4xf32>) -> ()
}
// CHECK-NOT: burn.transpose

// ----- transposes that combine
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 1, 2, 0>} : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 1, 2, 0>} : (tensor<3x4x2xf32>) -> tensor<4x2x3xf32>
  "burn.return"(%1) : (tensor<4x2x3xf32>) -> ()
}
// CHECK-COUNT-1: permutation = array<i64: 2, 0, 1>
// CHECK-NEXT: burn.return

// ----- a transpose that moves ones
func.func @main(%x: tensor<?x1x4xf32, ["n", "1", "4"]>) -> tensor<?x4x1xf32, ["n", "4", "1"]> {
  %0 = "burn.transpose"(%x) {permutation = array<i64: 0, 2, 1>} : (tensor<?x1x4xf32, ["n", "1", "4"]>) -> tensor<?x4x1xf32, ["n", "4", "1"]>
  "burn.return"(%0) : (tensor<?x4x1xf32, ["n", "4", "1"]>) -> ()
}
// CHECK: "burn.reshape"
// CHECK-NOT: burn.transpose

// ----- broadcast that only adds ones
func.func @main(%x: tensor<4xf32>) -> tensor<1x1x4xf32> {
  %0 = "burn.broadcast_to"(%x) {shape = ["1", "1", "4"]} : (tensor<4xf32>) -> tensor<1x1x4xf32>
  "burn.return"(%0) : (tensor<1x1x4xf32>) -> ()
}
// CHECK: "burn.reshape"
// CHECK-NOT: broadcast_to

// ----- broadcast before a sum
func.func @main(%x: tensor<4xf32>, %y: tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]> {
  %0 = "burn.broadcast_to"(%x) {shape = ["n", "4"]} : (tensor<4xf32>) -> tensor<?x4xf32, ["n", "4"]>
  %1 = "burn.add"(%0, %y) : (tensor<?x4xf32, ["n", "4"]>, tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]>
  "burn.return"(%1) : (tensor<?x4xf32, ["n", "4"]>) -> ()
}
// CHECK: "burn.add"(%arg0, %arg1)

// ----- broadcast that gives a sum its shape stays
func.func @main(%x: tensor<4xf32>, %y: tensor<1x4xf32>) -> tensor<3x4xf32> {
  %0 = "burn.broadcast_to"(%x) {shape = ["3", "4"]} : (tensor<4xf32>) -> tensor<3x4xf32>
  %1 = "burn.add"(%0, %y) : (tensor<3x4xf32>, tensor<1x4xf32>) -> tensor<3x4xf32>
  "burn.return"(%1) : (tensor<3x4xf32>) -> ()
}
// CHECK: broadcast_to

// ----- broadcast of a number
func.func @main(%x: tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 2.0 : f64} : () -> tensor<f32>
  %0 = "burn.broadcast_to"(%a) {shape = ["n", "4"]} : (tensor<f32>) -> tensor<?x4xf32, ["n", "4"]>
  %1 = "burn.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<?x4xf32, ["n", "4"]>) -> tensor<4x?xf32, ["4", "n"]>
  %2 = "burn.reshape"(%1) {shape = ["n", "4"]} : (tensor<4x?xf32, ["4", "n"]>) -> tensor<?x4xf32, ["n", "4"]>
  "burn.return"(%2) : (tensor<?x4xf32, ["n", "4"]>) -> ()
}
// CHECK-COUNT-1: "burn.full"() {dtype = "float32", shape = ["n", "4"]
// CHECK-NEXT: burn.return

// ----- slice of everything
func.func @main(%x: tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]> {
  %0 = "burn.slice"(%x) {sizes = ["n", "4"], starts = ["0", "0"], steps = array<i64: 1, 1>} : (tensor<?x4xf32, ["n", "4"]>) -> tensor<?x4xf32, ["n", "4"]>
  "burn.return"(%0) : (tensor<?x4xf32, ["n", "4"]>) -> ()
}
// CHECK-NOT: burn.slice

// ----- slice of a slice
func.func @main(%x: tensor<20xf32>) -> tensor<3xf32> {
  %0 = "burn.slice"(%x) {sizes = ["8"], starts = ["18"], steps = array<i64: -2>} : (tensor<20xf32>) -> tensor<8xf32>
  %1 = "burn.slice"(%0) {sizes = ["3"], starts = ["1"], steps = array<i64: 3>} : (tensor<8xf32>) -> tensor<3xf32>
  "burn.return"(%1) : (tensor<3xf32>) -> ()
}
// CHECK: "burn.slice"(%arg0) {sizes = ["3"], starts = ["16"], steps = array<i64: -6>}
// CHECK-NEXT: burn.return

// ----- slice of a broadcast
func.func @main(%x: tensor<1x6xf32>) -> tensor<2x3xf32> {
  %0 = "burn.broadcast_to"(%x) {shape = ["5", "6"]} : (tensor<1x6xf32>) -> tensor<5x6xf32>
  %1 = "burn.slice"(%0) {sizes = ["2", "3"], starts = ["1", "2"], steps = array<i64: 1, 1>} : (tensor<5x6xf32>) -> tensor<2x3xf32>
  "burn.return"(%1) : (tensor<2x3xf32>) -> ()
}
// CHECK: "burn.slice"(%arg0)
// CHECK-NEXT: broadcast_to

// ----- padding by nothing
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 2.0 : f64} : () -> tensor<f32>
  %0 = "burn.pad"(%x, %a) {high = ["0"], interior = array<i64>, low = ["0"]} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  "burn.return"(%0) : (tensor<4xf32>) -> ()
}
// CHECK-NOT: burn.pad

// ----- padding twice
func.func @main(%x: tensor<?xf32, ["n"]>) -> tensor<?xf32, ["n + 4"]> {
  %a = "burn.full"() {dtype = "float32", shape = [], value = 2.0 : f64} : () -> tensor<f32>
  %0 = "burn.pad"(%x, %a) {high = ["0"], interior = array<i64>, low = ["1"]} : (tensor<?xf32, ["n"]>, tensor<f32>) -> tensor<?xf32, ["n + 1"]>
  %1 = "burn.pad"(%0, %a) {high = ["2"], interior = array<i64>, low = ["1"]} : (tensor<?xf32, ["n + 1"]>, tensor<f32>) -> tensor<?xf32, ["n + 4"]>
  "burn.return"(%1) : (tensor<?xf32, ["n + 4"]>) -> ()
}
// CHECK-COUNT-1: "burn.pad"(%arg0, %{{.*}}) {high = ["2"], interior = array<i64>, low = ["2"]}
// CHECK-NEXT: burn.return

// ----- windows of one element
func.func @main(%x: tensor<2x5x3x4xf32>) -> tensor<2x5x3x1x1x4xf32> {
  %0 = "burn.windows"(%x) {axis = 1 : i64, window = array<i64: 1, 1>, strides = array<i64: 1, 1>, dilations = array<i64: 3, 1>} : (tensor<2x5x3x4xf32>) -> tensor<2x5x3x1x1x4xf32>
  "burn.return"(%0) : (tensor<2x5x3x1x1x4xf32>) -> ()
}
// CHECK-NOT: burn.windows
// CHECK: "burn.reshape"(%arg0)

// ----- windows of one element with gaps between them
func.func @main(%x: tensor<2x5x4xf32>) -> tensor<2x3x1x4xf32> {
  %0 = "burn.windows"(%x) {axis = 1 : i64, window = array<i64: 1>, strides = array<i64: 2>, dilations = array<i64: 1>} : (tensor<2x5x4xf32>) -> tensor<2x3x1x4xf32>
  "burn.return"(%0) : (tensor<2x3x1x4xf32>) -> ()
}
// CHECK-NOT: burn.windows
// CHECK: %0 = "burn.slice"(%arg0) {{.*}}steps = array<i64: 1, 2, 1>
// CHECK-NEXT: "burn.reshape"(%0)
