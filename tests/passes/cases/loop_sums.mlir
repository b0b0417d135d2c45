// passes: loop_sums,simplify

// ----- a sum of contractions is one contraction of the stacks that the loop reads, the second one in reverse
// rounds
func.func @main(%x: tensor<5x2x3xf32>, %y: tensor<5x2x4xf32>, %s: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 5.0 : f64} : () -> tensor<i64>
  %last = "burn.full"() {dtype = "int64", shape = [], value = 4.0 : f64} : () -> tensor<i64>
  %0 = "burn.loop"(%n, %s) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %a: tensor<3x4xf32>):
    %1 = "burn.gather"(%x, %i) {axis = 0 : i64} : (tensor<5x2x3xf32>, tensor<i64>) -> tensor<2x3xf32>
    %2 = "burn.sub"(%last, %i) : (tensor<i64>, tensor<i64>) -> tensor<i64>
    %3 = "burn.gather"(%y, %2) {axis = 0 : i64} : (tensor<5x2x4xf32>, tensor<i64>) -> tensor<2x4xf32>
    %4 = "burn.dot_general"(%1, %3) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
    %5 = "burn.add"(%a, %4) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "burn.yield"(%go, %5) : (tensor<i1>, tensor<3x4xf32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<3x4xf32>) -> tensor<3x4xf32>
  "burn.return"(%0) : (tensor<3x4xf32>) -> ()
}
// CHECK-NOT: burn.loop
// CHECK: %[[R:.+]] = "burn.slice"(%arg1)
// CHECK-SAME: steps = array<i64: -1, 1, 1>
// CHECK: "burn.dot_general"(%arg0, %[[R]])
// CHECK-SAME: lhs_contract = array<i64: 0, 1>
// CHECK-SAME: rhs_contract = array<i64: 0, 1>
// CHECK-NOT: burn.loop

// ----- a value that the loop computes is stacked; what else is added stays in the loop
// rounds
func.func @main(%x: tensor<2x8xf32>, %y: tensor<6x2x8xf32>, %s: tensor<8x8xf32>, %b: tensor<8x8xf32>) -> (tensor<2x8xf32>, tensor<8x8xf32>) {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 6.0 : f64} : () -> tensor<i64>
  %0:2 = "burn.loop"(%n, %x, %s) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %h: tensor<2x8xf32>, %a: tensor<8x8xf32>):
    %1 = "burn.tanh"(%h) : (tensor<2x8xf32>) -> tensor<2x8xf32>
    %3 = "burn.gather"(%y, %i) {axis = 0 : i64} : (tensor<6x2x8xf32>, tensor<i64>) -> tensor<2x8xf32>
    %4 = "burn.dot_general"(%1, %3) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %5 = "burn.add"(%a, %4) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %6 = "burn.add"(%5, %b) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    "burn.yield"(%go, %1, %6) : (tensor<i1>, tensor<2x8xf32>, tensor<8x8xf32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 2>, symbols = []} : (tensor<i64>, tensor<2x8xf32>, tensor<8x8xf32>) -> (tensor<2x8xf32>, tensor<8x8xf32>)
  "burn.return"(%0#0, %0#1) : (tensor<2x8xf32>, tensor<8x8xf32>) -> ()
}
// CHECK: %[[L:.+]]:3 = "burn.loop"
// CHECK-NOT: burn.dot_general
// CHECK: scans = 1
// CHECK: "burn.dot_general"(%[[L]]#2, %arg1)

// ----- a sum whose operands are larger and not stacked yet stays
func.func @main(%x: tensor<9x4xf32>, %s: tensor<4x4xf32>) -> (tensor<9x4xf32>, tensor<4x4xf32>) {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 6.0 : f64} : () -> tensor<i64>
  %0:2 = "burn.loop"(%n, %x, %s) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %h: tensor<9x4xf32>, %a: tensor<4x4xf32>):
    %1 = "burn.tanh"(%h) : (tensor<9x4xf32>) -> tensor<9x4xf32>
    %4 = "burn.dot_general"(%1, %h) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<9x4xf32>, tensor<9x4xf32>) -> tensor<4x4xf32>
    %5 = "burn.add"(%a, %4) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
    "burn.yield"(%go, %1, %5) : (tensor<i1>, tensor<9x4xf32>, tensor<4x4xf32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 2>, symbols = []} : (tensor<i64>, tensor<9x4xf32>, tensor<4x4xf32>) -> (tensor<9x4xf32>, tensor<4x4xf32>)
  "burn.return"(%0#0, %0#1) : (tensor<9x4xf32>, tensor<4x4xf32>) -> ()
}
// CHECK: burn.loop
// CHECK: burn.dot_general
// CHECK: scans = 0

// ----- a sum of reductions reduces the stack
// rounds
func.func @main(%x: tensor<5x2x3xf32>, %s: tensor<3xf32>) -> tensor<3xf32> {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 5.0 : f64} : () -> tensor<i64>
  %0 = "burn.loop"(%n, %s) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %a: tensor<3xf32>):
    %1 = "burn.gather"(%x, %i) {axis = 0 : i64} : (tensor<5x2x3xf32>, tensor<i64>) -> tensor<2x3xf32>
    %2 = "burn.reduce"(%1) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<2x3xf32>) -> tensor<3xf32>
    %3 = "burn.add"(%2, %a) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "burn.yield"(%go, %3) : (tensor<i1>, tensor<3xf32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<3xf32>) -> tensor<3xf32>
  "burn.return"(%0) : (tensor<3xf32>) -> ()
}
// CHECK-NOT: burn.loop
// CHECK: "burn.reduce"(%arg0) {axes = array<i64: 0, 1>

// ----- a loop without stacks, whose memory does not grow with the number of iterations, stays
func.func @main(%x: tensor<8xf32>, %s: tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>) {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 1000000.0 : f64} : () -> tensor<i64>
  %0:2 = "burn.loop"(%n, %x, %s) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %h: tensor<8xf32>, %a: tensor<8x8xf32>):
    %1 = "burn.tanh"(%h) : (tensor<8xf32>) -> tensor<8xf32>
    %2 = "burn.dot_general"(%1, %h) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64>, rhs_contract = array<i64>} : (tensor<8xf32>, tensor<8xf32>) -> tensor<8x8xf32>
    %3 = "burn.add"(%a, %2) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    "burn.yield"(%go, %1, %3) : (tensor<i1>, tensor<8xf32>, tensor<8x8xf32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 2>, symbols = []} : (tensor<i64>, tensor<8xf32>, tensor<8x8xf32>) -> (tensor<8xf32>, tensor<8x8xf32>)
  "burn.return"(%0#0, %0#1) : (tensor<8xf32>, tensor<8x8xf32>) -> ()
}
// CHECK: burn.loop
// CHECK: burn.dot_general
// CHECK: scans = 0

// ----- a float32 sum of float16 terms, which may be beyond float16, stays
func.func @main(%x: tensor<5x2x3xf16>, %y: tensor<5x2x4xf16>, %s: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 5.0 : f64} : () -> tensor<i64>
  %0 = "burn.loop"(%n, %s) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %a: tensor<3x4xf32>):
    %1 = "burn.gather"(%x, %i) {axis = 0 : i64} : (tensor<5x2x3xf16>, tensor<i64>) -> tensor<2x3xf16>
    %2 = "burn.gather"(%y, %i) {axis = 0 : i64} : (tensor<5x2x4xf16>, tensor<i64>) -> tensor<2x4xf16>
    %3 = "burn.dot_general"(%1, %2) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_contract = array<i64: 0>} : (tensor<2x3xf16>, tensor<2x4xf16>) -> tensor<3x4xf16>
    %4 = "burn.cast"(%3) {dtype = "float32", saturate = true} : (tensor<3x4xf16>) -> tensor<3x4xf32>
    %5 = "burn.add"(%a, %4) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
    "burn.yield"(%go, %5) : (tensor<i1>, tensor<3x4xf32>) -> ()
  }) {scans = 0 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<3x4xf32>) -> tensor<3x4xf32>
  "burn.return"(%0) : (tensor<3x4xf32>) -> ()
}
// CHECK: burn.loop
// CHECK: burn.dot_general
// CHECK: burn.cast

// ----- a contraction with another use stays
func.func @main(%x: tensor<5x3x3xf32>, %s: tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<5x3x3xf32>) {
  %n = "burn.full"() {dtype = "int64", shape = [], value = 5.0 : f64} : () -> tensor<i64>
  %0:2 = "burn.loop"(%n, %s) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %a: tensor<3x3xf32>):
    %1 = "burn.gather"(%x, %i) {axis = 0 : i64} : (tensor<5x3x3xf32>, tensor<i64>) -> tensor<3x3xf32>
    %3 = "burn.dot_general"(%1, %1) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 0>, rhs_contract = array<i64: 1>} : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    %5 = "burn.add"(%a, %3) : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
    "burn.yield"(%go, %5, %3) : (tensor<i1>, tensor<3x3xf32>, tensor<3x3xf32>) -> ()
  }) {scans = 1 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<3x3xf32>) -> (tensor<3x3xf32>, tensor<5x3x3xf32>)
  "burn.return"(%0#0, %0#1) : (tensor<3x3xf32>, tensor<5x3x3xf32>) -> ()
}
// CHECK: burn.loop
// CHECK: burn.dot_general
// CHECK-NOT: burn.dot_general
