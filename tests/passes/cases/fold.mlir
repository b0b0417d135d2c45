// passes: fold

// ----- small results are written down
func.func @main(%x: tensor<3xi64>) -> tensor<3xi64> {
  %a = "burn.iota"() {axis = 0 : i64, dtype = "int64", shape = ["3"]} : () -> tensor<3xi64>
  %0 = "burn.mul"(%a, %a) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  %1 = "burn.add"(%x, %0) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
  "burn.return"(%1) : (tensor<3xi64>) -> ()
}
// CHECK: %[[C:.*]] = "burn.constant"() {bits = array<i64: 0, 1, 4>
// CHECK-NEXT: "burn.add"(%arg0, %[[C]])

// ----- uniform results become full
func.func @main(%x: tensor<30xf32>) -> tensor<30xf32> {
  %a = "burn.full"() {dtype = "float32", shape = ["30"], value = 2.0 : f64} : () -> tensor<30xf32>
  %0 = "burn.mul"(%a, %a) : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  %1 = "burn.add"(%x, %0) : (tensor<30xf32>, tensor<30xf32>) -> tensor<30xf32>
  "burn.return"(%1) : (tensor<30xf32>) -> ()
}
// CHECK: "burn.full"() {dtype = "float32", shape = ["30"], value = 4.000000e+00
// CHECK-NOT: burn.mul

// ----- larger results become weights
func.func @main(%x: tensor<3x20xf32>) -> tensor<3x20xf32> {
  %a = "burn.weight"() {dtype = "float32", key = "a", shape = ["20", "3"]} : () -> tensor<20x3xf32>
  %0 = "burn.transpose"(%a) {permutation = array<i64: 1, 0>} : (tensor<20x3xf32>) -> tensor<3x20xf32>
  %1 = "burn.exp"(%0) : (tensor<3x20xf32>) -> tensor<3x20xf32>
  %2 = "burn.add"(%x, %1) : (tensor<3x20xf32>, tensor<3x20xf32>) -> tensor<3x20xf32>
  "burn.return"(%2) : (tensor<3x20xf32>) -> ()
}
// CHECK: "burn.weight"() {dtype = "float32", {{.*}}shape = ["3", "20"]}
// CHECK-NEXT: "burn.add"

// ----- a reshaped weight
func.func @main(%x: tensor<60xf32>) -> tensor<60xf32> {
  %a = "burn.weight"() {dtype = "float32", key = "a", shape = ["20", "3"]} : () -> tensor<20x3xf32>
  %0 = "burn.reshape"(%a) {shape = ["60"]} : (tensor<20x3xf32>) -> tensor<60xf32>
  %1 = "burn.add"(%x, %0) : (tensor<60xf32>, tensor<60xf32>) -> tensor<60xf32>
  "burn.return"(%1) : (tensor<60xf32>) -> ()
}
// CHECK: "burn.weight"() {dtype = "float32", {{.*}}shape = ["60"]}
// CHECK-NOT: burn.reshape

// ----- what depends on a size stays
func.func @main(%x: tensor<?xi64, ["n"]>) -> tensor<?xi64, ["n"]> {
  %a = "burn.dim_values"() {dims = ["n"], scalar = true} : () -> tensor<i64>
  %0 = "burn.mul"(%a, %a) : (tensor<i64>, tensor<i64>) -> tensor<i64>
  %1 = "burn.add"(%x, %0) : (tensor<?xi64, ["n"]>, tensor<i64>) -> tensor<?xi64, ["n"]>
  "burn.return"(%1) : (tensor<?xi64, ["n"]>) -> ()
}
// CHECK: burn.mul

// ----- a large broadcast stays
func.func @main(%x: tensor<1000x600xf32>) -> tensor<1000x600xf32> {
  %a = "burn.weight"() {dtype = "float32", key = "a", shape = ["600"]} : () -> tensor<600xf32>
  %0 = "burn.broadcast_to"(%a) {shape = ["1000", "600"]} : (tensor<600xf32>) -> tensor<1000x600xf32>
  %1 = "burn.max"(%x, %0) : (tensor<1000x600xf32>, tensor<1000x600xf32>) -> tensor<1000x600xf32>
  "burn.return"(%1) : (tensor<1000x600xf32>) -> ()
}
// CHECK: "burn.weight"() {dtype = "float32", key = "a", shape = ["600"]}
// CHECK-NEXT: broadcast_to

// ----- inside a branch
func.func @main(%c: tensor<i1>, %x: tensor<3xi64>) -> tensor<3xi64> {
  %a = "burn.iota"() {axis = 0 : i64, dtype = "int64", shape = ["3"]} : () -> tensor<3xi64>
  %0 = "burn.if"(%c) ({
    %1 = "burn.mul"(%a, %a) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    %2 = "burn.add"(%x, %1) : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi64>
    "burn.yield"(%2) : (tensor<3xi64>) -> ()
  }, {
    "burn.yield"(%x) : (tensor<3xi64>) -> ()
  }) {symbols = []} : (tensor<i1>) -> tensor<3xi64>
  "burn.return"(%0) : (tensor<3xi64>) -> ()
}
// CHECK: "burn.if"
// CHECK: %[[C:.*]] = "burn.constant"() {bits = array<i64: 0, 1, 4>
// CHECK-NEXT: "burn.add"(%arg1, %[[C]])

// ----- a small result is folded though a larger value leads to it
// large
func.func @main(%x: tensor<600xf32>) -> tensor<600xf32> {
  %a = "burn.weight"() {dtype = "float32", key = "a", shape = ["600"]} : () -> tensor<600xf32>
  %0 = "burn.broadcast_to"(%a) {shape = ["1000", "600"]} : (tensor<600xf32>) -> tensor<1000x600xf32>
  %1 = "burn.exp"(%0) : (tensor<1000x600xf32>) -> tensor<1000x600xf32>
  %2 = "burn.reduce"(%1) {axes = array<i64: 0>, keepdims = false, kind = "sum"} : (tensor<1000x600xf32>) -> tensor<600xf32>
  %3 = "burn.add"(%x, %2) : (tensor<600xf32>, tensor<600xf32>) -> tensor<600xf32>
  "burn.return"(%3) : (tensor<600xf32>) -> ()
}
// CHECK: "burn.weight"() {{.*}}shape = ["600"]}
// CHECK-NEXT: "burn.add"(%arg0

// ----- a large result is folded if computing it takes longer than reading it
// large
// rounds
func.func @main(%x: tensor<1000x600xf32>) -> tensor<1000x600xf32> {
  %a = "burn.weight"() {dtype = "float32", key = "a", shape = ["1000", "70"]} : () -> tensor<1000x70xf32>
  %b = "burn.weight"() {dtype = "float32", key = "b", shape = ["70", "600"]} : () -> tensor<70x600xf32>
  %0 = "burn.dot_general"(%a, %b) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<1000x70xf32>, tensor<70x600xf32>) -> tensor<1000x600xf32>
  %1 = "burn.add"(%x, %0) : (tensor<1000x600xf32>, tensor<1000x600xf32>) -> tensor<1000x600xf32>
  "burn.return"(%1) : (tensor<1000x600xf32>) -> ()
}
// CHECK-NOT: burn.dot_general
// CHECK: burn.return
