// passes: precision{to=bfloat16}

// ----- a product reads halves, and what follows it stays float32 where nobody wants its half
func.func @main(%x: tensor<2x3xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %w = "burn.weight"() {dtype = "float32", key = "w", shape = ["3", "4"]} : () -> tensor<3x4xf32>
  %0 = "burn.dot_general"(%x, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %1 = "burn.add"(%0, %b) : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  "burn.return"(%1) : (tensor<2x4xf32>) -> ()
}
// CHECK:      [[W:%.*]] = "burn.weight"
// CHECK:      [[X:%.*]] = "burn.cast"(%arg0) {dtype = "bfloat16"
// CHECK:      [[H:%.*]] = "burn.cast"([[W]]) {dtype = "bfloat16"
// CHECK:      [[Y:%.*]] = "burn.dot_general"([[X]], [[H]]) {dtype = "float32"
// CHECK-NEXT: "burn.add"([[Y]], %arg1) : (tensor<2x4xf32>

// ----- what is pointwise between two products stays in halves
func.func @main(%x: tensor<2x3xf32>, %u: tensor<3x3xf32>) -> tensor<2x3xf32> {
  %b = "burn.weight"() {dtype = "float32", key = "b", shape = ["3"]} : () -> tensor<3xf32>
  %0 = "burn.dot_general"(%x, %u) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %1 = "burn.add"(%0, %b) : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %2 = "burn.gelu"(%1) {approximate = "none"} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = "burn.dot_general"(%2, %u) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  "burn.return"(%3) : (tensor<2x3xf32>) -> ()
}
// CHECK: "burn.add"({{.*}}) : (tensor<2x3xbf16>, tensor<3xbf16>) -> tensor<2x3xbf16>
// CHECK: "burn.gelu"({{.*}} : (tensor<2x3xbf16>) -> tensor<2x3xbf16>
// CHECK: "burn.dot_general"({{.*}} : (tensor<2x3xbf16>, tensor<3x3xbf16>) -> tensor<2x3xf32>

// ----- sums, exponentials and norms are computed in float32, and a sum with float32 is float32
func.func @main(%x: tensor<2x3xf32>, %u: tensor<3x3xf32>) -> tensor<2x3xf32> {
  %0 = "burn.dot_general"(%x, %u) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  %1 = "burn.softmax"(%0) {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "burn.exp"(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = "burn.add"(%1, %0) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = "burn.mul"(%2, %3) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = "burn.dot_general"(%4, %u) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
  "burn.return"(%5) : (tensor<2x3xf32>) -> ()
}
// CHECK: "burn.softmax"({{.*}} : (tensor<2x3xf32>)
// CHECK: "burn.exp"({{.*}} : (tensor<2x3xf32>)
// CHECK: "burn.add"({{.*}} : (tensor<2x3xf32>, tensor<2x3xf32>)
// CHECK: "burn.mul"({{.*}} : (tensor<2x3xf32>, tensor<2x3xf32>)

// ----- integers and doubles stay
func.func @main(%x: tensor<2x3xf64>, %u: tensor<3x3xf64>, %i: tensor<2x3xi32>, %j: tensor<3x3xi32>) -> (tensor<2x3xf64>, tensor<2x3xi32>) {
  %0 = "burn.dot_general"(%x, %u) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xf64>, tensor<3x3xf64>) -> tensor<2x3xf64>
  %1 = "burn.dot_general"(%i, %j) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<2x3xi32>, tensor<3x3xi32>) -> tensor<2x3xi32>
  "burn.return"(%0, %1) : (tensor<2x3xf64>, tensor<2x3xi32>) -> ()
}
// CHECK-NOT: burn.cast

// ----- what moves or compares elements on the way to a matmul works on rounded ones; with another reader it stays float32
func.func @main(%x: tensor<2x8x8x3xf32>, %w: tensor<1x1x3x5xf32>) -> (tensor<2x4x4x5xf32>, tensor<2x8x8x3xf32>) {
  %0 = "burn.exp"(%x) : (tensor<2x8x8x3xf32>) -> tensor<2x8x8x3xf32>
  %1 = "burn.relu"(%0) : (tensor<2x8x8x3xf32>) -> tensor<2x8x8x3xf32>
  %2 = "burn.window_reduce"(%1) {dilations = array<i64: 1, 1, 1, 1>, high = ["0", "0", "0", "0"], kind = "max", low = ["0", "0", "0", "0"], strides = array<i64: 1, 2, 2, 1>, window = array<i64: 1, 2, 2, 1>} : (tensor<2x8x8x3xf32>) -> tensor<2x4x4x3xf32>
  %3 = "burn.conv"(%2, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["0", "0"], high = ["0", "0"], groups = 1 : i64, layout = "last"} : (tensor<2x4x4x3xf32>, tensor<1x1x3x5xf32>) -> tensor<2x4x4x5xf32>
  %4 = "burn.relu"(%x) : (tensor<2x8x8x3xf32>) -> tensor<2x8x8x3xf32>
  "burn.return"(%3, %4) : (tensor<2x4x4x5xf32>, tensor<2x8x8x3xf32>) -> ()
}
// CHECK: [[E:%.*]] = "burn.exp"({{.*}}) : (tensor<2x8x8x3xf32>) -> tensor<2x8x8x3xf32>
// CHECK: [[H:%.*]] = "burn.cast"([[E]]) {dtype = "bfloat16"
// CHECK: "burn.relu"([[H]]) : (tensor<2x8x8x3xbf16>) -> tensor<2x8x8x3xbf16>
// CHECK: "burn.window_reduce"({{.*}} : (tensor<2x8x8x3xbf16>) -> tensor<2x4x4x3xbf16>
// CHECK: "burn.relu"(%arg0) : (tensor<2x8x8x3xf32>) -> tensor<2x8x8x3xf32>

// ----- a carried value that only a matmul reads, and whose last value has no reader, is carried in half precision
func.func @main(%s: tensor<1x4xf32>, %w: tensor<4x4xf32>) -> tensor<5x1x4xf32> {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 5.0 : f64, bits = 5 : i64} : () -> tensor<i64>
  %0:2 = "burn.loop"(%n, %s) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %h: tensor<1x4xf32>):
    %1 = "burn.dot_general"(%h, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
    %2 = "burn.tanh"(%1) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    "burn.yield"(%c, %2, %2) : (tensor<i1>, tensor<1x4xf32>, tensor<1x4xf32>) -> ()
  }) {scans = 1 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<5x1x4xf32>)
  "burn.return"(%0#1) : (tensor<5x1x4xf32>) -> ()
}
// CHECK: [[S:%.*]] = "burn.cast"(%arg0) {dtype = "bfloat16"
// CHECK: "burn.loop"({{.*}}, [[S]])
// CHECK: %arg4: tensor<1x4xbf16>):
// CHECK: "burn.dot_general"(%arg4,
// CHECK: [[T:%.*]] = "burn.tanh"
// CHECK: [[C:%.*]] = "burn.cast"([[T]]) {dtype = "bfloat16"
// CHECK: "burn.yield"({{.*}}, [[C]], [[T]])

// ----- and one whose last value is a result stays float32
func.func @main(%s: tensor<1x4xf32>, %w: tensor<4x4xf32>) -> tensor<1x4xf32> {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 5.0 : f64, bits = 5 : i64} : () -> tensor<i64>
  %0 = "burn.loop"(%n, %s) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %h: tensor<1x4xf32>):
    %1 = "burn.dot_general"(%h, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<1x4xf32>, tensor<4x4xf32>) -> tensor<1x4xf32>
    %2 = "burn.tanh"(%1) : (tensor<1x4xf32>) -> tensor<1x4xf32>
    "burn.yield"(%c, %2) : (tensor<i1>, tensor<1x4xf32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<1x4xf32>) -> tensor<1x4xf32>
  "burn.return"(%0) : (tensor<1x4xf32>) -> ()
}
// CHECK: %arg4: tensor<1x4xf32>):
// CHECK: [[C:%.*]] = "burn.cast"(%arg4) {dtype = "bfloat16"
// CHECK: "burn.dot_general"([[C]],
// CHECK: "burn.return"({{.*}}) : (tensor<1x4xf32>)

// ----- a value of changing shape keeps its sizes, in the loop and behind it
func.func @main(%s: tensor<?x4xf32, ["n", "4"]>, %w: tensor<4x4xf32>) -> tensor<5x4x4xf32> {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 5.0 : f64, bits = 5 : i64} : () -> tensor<i64>
  %0:2 = "burn.loop"(%n, %s) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %h: tensor<?x4xf32, ["k", "4"]>):
    %1 = "burn.dot_general"(%h, %w) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<?x4xf32, ["k", "4"]>, tensor<4x4xf32>) -> tensor<?x4xf32, ["k", "4"]>
    %2 = "burn.concat"(%1, %w) {axis = 0 : i64} : (tensor<?x4xf32, ["k", "4"]>, tensor<4x4xf32>) -> tensor<?x4xf32, ["k + 4", "4"]>
    "burn.yield"(%c, %2, %w) : (tensor<i1>, tensor<?x4xf32, ["k + 4", "4"]>, tensor<4x4xf32>) -> ()
  }) {scans = 1 : i64, segments = array<i64: 1, 0, 1>, symbols = ["k", "m"]} : (tensor<i64>, tensor<?x4xf32, ["n", "4"]>) -> (tensor<?x4xf32, ["m", "4"]>, tensor<5x4x4xf32>)
  "burn.return"(%0#1) : (tensor<5x4x4xf32>) -> ()
}
// CHECK: %arg4: tensor<?x4xbf16, ["k", "4"]>):
// CHECK: -> (tensor<?x4xbf16, ["m", "4"]>, tensor<5x4x4xf32>)
