// passes: simplify

// ----- a known branch
func.func @main(%x: tensor<?x3xf32, ["n", "3"]>) -> tensor<?x3xf32, ["n + 1", "3"]> {
  %c = "burn.full"() {dtype = "bool", shape = [], value = 1.0 : f64} : () -> tensor<i1>
  %z = "burn.full"() {dtype = "float32", shape = [], value = 1.0 : f64} : () -> tensor<f32>
  %0 = "burn.if"(%c) ({
    %1 = "burn.pad"(%x, %z) {high = ["1", "0"], interior = array<i64>, low = ["0", "0"]} : (tensor<?x3xf32, ["n", "3"]>, tensor<f32>) -> tensor<?x3xf32, ["n + 1", "3"]>
    "burn.yield"(%1) : (tensor<?x3xf32, ["n + 1", "3"]>) -> ()
  }, {
    "burn.yield"(%x) : (tensor<?x3xf32, ["n", "3"]>) -> ()
  }) {symbols = ["s"]} : (tensor<i1>) -> tensor<?x3xf32, ["s", "3"]>
  %2 = "burn.exp"(%0) : (tensor<?x3xf32, ["s", "3"]>) -> tensor<?x3xf32, ["s", "3"]>
  "burn.return"(%2) : (tensor<?x3xf32, ["s", "3"]>) -> ()
}
// CHECK-NOT: burn.if
// CHECK: %[[P:.*]] = "burn.pad"
// CHECK-NEXT: "burn.exp"(%[[P]]) : (tensor<?x3xf32, ["n + 1", "3"]>) -> tensor<?x3xf32, ["n + 1", "3"]>

// ----- an unknown branch stays
func.func @main(%c: tensor<i1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "burn.if"(%c) ({
    %1 = "burn.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
    "burn.yield"(%1) : (tensor<3xf32>) -> ()
  }, {
    "burn.yield"(%x) : (tensor<3xf32>) -> ()
  }) {symbols = []} : (tensor<i1>) -> tensor<3xf32>
  "burn.return"(%0) : (tensor<3xf32>) -> ()
}
// CHECK: burn.if

// ----- a choice that nothing reads
func.func @main(%c: tensor<i1>, %x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = "burn.if"(%c) ({
    %1 = "burn.exp"(%x) : (tensor<3xf32>) -> tensor<3xf32>
    "burn.yield"(%1) : (tensor<3xf32>) -> ()
  }, {
    "burn.yield"(%x) : (tensor<3xf32>) -> ()
  }) {symbols = []} : (tensor<i1>) -> tensor<3xf32>
  "burn.return"(%x) : (tensor<3xf32>) -> ()
}
// CHECK-NOT: burn.if

// ----- a loop of one iteration
func.func @main(%x: tensor<?x3xf32, ["n", "3"]>) -> (tensor<?x3xf32, ["2*n", "3"]>, tensor<1x?x3xf32, ["1", "n", "3"]>) {
  %t = "burn.full"() {bits = 1 : i64, dtype = "int64", shape = []} : () -> tensor<i64>
  %0, %1 = "burn.loop"(%t, %x) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %a: tensor<?x3xf32, ["k", "3"]>):
    %2 = "burn.concat"(%a, %x) {axis = 0 : i64} : (tensor<?x3xf32, ["k", "3"]>, tensor<?x3xf32, ["n", "3"]>) -> tensor<?x3xf32, ["k + n", "3"]>
    %3 = "burn.exp"(%x) : (tensor<?x3xf32, ["n", "3"]>) -> tensor<?x3xf32, ["n", "3"]>
    "burn.yield"(%c, %2, %3) : (tensor<i1>, tensor<?x3xf32, ["k + n", "3"]>, tensor<?x3xf32, ["n", "3"]>) -> ()
  }) {scans = 1 : i64, segments = array<i64: 1, 0, 1>, symbols = ["k", "m"]} : (tensor<i64>, tensor<?x3xf32, ["n", "3"]>) -> (tensor<?x3xf32, ["m", "3"]>, tensor<1x?x3xf32, ["1", "n", "3"]>)
  "burn.return"(%0, %1) : (tensor<?x3xf32, ["m", "3"]>, tensor<1x?x3xf32, ["1", "n", "3"]>) -> ()
}
// CHECK-NOT: burn.loop
// CHECK: "burn.concat"(%arg0, %arg0) {axis = 0 : i64} : (tensor<?x3xf32, ["n", "3"]>, tensor<?x3xf32, ["n", "3"]>) -> tensor<?x3xf32, ["2*n", "3"]>

// ----- a loop of no iterations
func.func @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<0x3xf32>) {
  %t = "burn.full"() {bits = 0 : i64, dtype = "int64", shape = []} : () -> tensor<i64>
  %0, %1 = "burn.loop"(%t, %x) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %a: tensor<3xf32>):
    %2 = "burn.exp"(%a) : (tensor<3xf32>) -> tensor<3xf32>
    "burn.yield"(%c, %2, %2) : (tensor<i1>, tensor<3xf32>, tensor<3xf32>) -> ()
  }) {scans = 1 : i64, segments = array<i64: 1, 0, 1>, symbols = []} : (tensor<i64>, tensor<3xf32>) -> (tensor<3xf32>, tensor<0x3xf32>)
  "burn.return"(%0, %1) : (tensor<3xf32>, tensor<0x3xf32>) -> ()
}
// CHECK-NOT: burn.loop
// CHECK: "burn.return"(%arg0

// ----- a size read from a vector of sizes, and one from a constant
func.func @main(%x: tensor<?x?xf32, ["n", "m"]>) -> tensor<?x?xf32, ["m", "5"]> {
  %s = "burn.dim_values"() {dims = ["n", "m"], scalar = false} : () -> tensor<2xi64>
  %f = "burn.full"() {bits = 5 : i64, dtype = "int64", shape = []} : () -> tensor<i64>
  "burn.read_dim"(%s) {minimum = 0 : i64, position = 1 : i64, symbol = "a"} : (tensor<2xi64>) -> ()
  "burn.read_dim"(%f) {minimum = 0 : i64, position = 0 : i64, symbol = "b"} : (tensor<i64>) -> ()
  %0 = "burn.full"() {dtype = "float32", shape = ["a", "b"], value = 2.0 : f64} : () -> tensor<?x?xf32, ["a", "b"]>
  %1 = "burn.exp"(%0) : (tensor<?x?xf32, ["a", "b"]>) -> tensor<?x?xf32, ["a", "b"]>
  "burn.return"(%1) : (tensor<?x?xf32, ["a", "b"]>) -> ()
}
// CHECK-NOT: burn.read_dim
// CHECK: "burn.exp"({{.*}}) : (tensor<?x5xf32, ["m", "5"]>) -> tensor<?x5xf32, ["m", "5"]>
