// passes: simplify

// ----- updates at 4 i + k lie beside each other
func.func @main(%u: tensor<3x4x2xf32>) -> tensor<14x2xf32> {
  %x = "burn.full"() {bits = 0 : i64, dtype = "float32", shape = ["14", "2"]} : () -> tensor<14x2xf32>
  %i = "burn.iota"() {axis = 0 : i64, dtype = "int64", shape = ["3", "1", "1"]} : () -> tensor<3x1x1xi64>
  %k = "burn.iota"() {axis = 1 : i64, dtype = "int64", shape = ["1", "4", "1"]} : () -> tensor<1x4x1xi64>
  %four = "burn.full"() {bits = 4 : i64, dtype = "int64", shape = []} : () -> tensor<i64>
  %s = "burn.mul"(%i, %four) : (tensor<3x1x1xi64>, tensor<i64>) -> tensor<3x1x1xi64>
  %at = "burn.add"(%s, %k) : (tensor<3x1x1xi64>, tensor<1x4x1xi64>) -> tensor<3x4x1xi64>
  %0 = "burn.scatter_nd"(%x, %at, %u) {reduction = "add"} : (tensor<14x2xf32>, tensor<3x4x1xi64>, tensor<3x4x2xf32>) -> tensor<14x2xf32>
  "burn.return"(%0) : (tensor<14x2xf32>) -> ()
}
// CHECK: [[R:%[0-9]+]] = "burn.reshape"(%arg0) {shape = ["12", "2"]}
// CHECK: "burn.pad"([[R]], {{.*}}) {high = ["2", "0"], interior = array<i64>, low = ["0", "0"]}
// CHECK-NOT: scatter

// ----- windows that overlap are a sum of two parts
// rounds
func.func @main(%u: tensor<4x3xf32>) -> tensor<9xf32> {
  %x = "burn.full"() {bits = 0 : i64, dtype = "float32", shape = ["9"]} : () -> tensor<9xf32>
  %i = "burn.iota"() {axis = 0 : i64, dtype = "int64", shape = ["4", "1", "1"]} : () -> tensor<4x1x1xi64>
  %k = "burn.iota"() {axis = 1 : i64, dtype = "int64", shape = ["1", "3", "1"]} : () -> tensor<1x3x1xi64>
  %two = "burn.full"() {bits = 2 : i64, dtype = "int64", shape = []} : () -> tensor<i64>
  %s = "burn.mul"(%i, %two) : (tensor<4x1x1xi64>, tensor<i64>) -> tensor<4x1x1xi64>
  %at = "burn.add"(%s, %k) : (tensor<4x1x1xi64>, tensor<1x3x1xi64>) -> tensor<4x3x1xi64>
  %0 = "burn.scatter_nd"(%x, %at, %u) {reduction = "add"} : (tensor<9xf32>, tensor<4x3x1xi64>, tensor<4x3xf32>) -> tensor<9xf32>
  "burn.return"(%0) : (tensor<9xf32>) -> ()
}
// CHECK: "burn.slice"(%arg0) {sizes = ["4", "2"], starts = ["0", "0"]
// CHECK: "burn.slice"(%arg0) {sizes = ["4", "1"], starts = ["0", "2"]
// CHECK: burn.add
// CHECK-NOT: scatter

// ----- indices of a constant, from the end and backwards
func.func @main(%u: tensor<2x3xf32>) -> tensor<2x8xf32> {
  %x = "burn.full"() {bits = 0 : i64, dtype = "float32", shape = ["2", "8"]} : () -> tensor<2x8xf32>
  %c = "burn.constant"() {bits = array<i64: -1, -3, -5>, dtype = "int64", shape = ["1", "3"], values = array<f64: -1.0, -3.0, -5.0>} : () -> tensor<1x3xi64>
  %at = "burn.broadcast_to"(%c) {shape = ["2", "3"]} : (tensor<1x3xi64>) -> tensor<2x3xi64>
  %0 = "burn.scatter_elements"(%x, %at, %u) {axis = 1 : i64, reduction = "add"} : (tensor<2x8xf32>, tensor<2x3xi64>, tensor<2x3xf32>) -> tensor<2x8xf32>
  "burn.return"(%0) : (tensor<2x8xf32>) -> ()
}
// CHECK: steps = array<i64: {{.*}}-1
// CHECK: interior = array<i64: {{.*}}1
// CHECK-NOT: scatter

// ----- one target for all updates of a row
// rounds
func.func @main(%u: tensor<5x3xf32>) -> tensor<4xf32> {
  %x = "burn.full"() {bits = 0 : i64, dtype = "float32", shape = ["4"]} : () -> tensor<4xf32>
  %k = "burn.iota"() {axis = 1 : i64, dtype = "int64", shape = ["5", "3", "1"]} : () -> tensor<5x3x1xi64>
  %0 = "burn.scatter_nd"(%x, %k, %u) {reduction = "add"} : (tensor<4xf32>, tensor<5x3x1xi64>, tensor<5x3xf32>) -> tensor<4xf32>
  "burn.return"(%0) : (tensor<4xf32>) -> ()
}
// CHECK: "burn.reduce"(%arg0) {axes = array<i64: 0>
// CHECK: burn.pad
// CHECK-NOT: scatter

// ----- a scatter at indices from data stays
func.func @main(%u: tensor<3xf32>, %i: tensor<3x1xui8>) -> tensor<256xf32> {
  %x = "burn.full"() {bits = 0 : i64, dtype = "float32", shape = ["256"]} : () -> tensor<256xf32>
  %0 = "burn.scatter_nd"(%x, %i, %u) {reduction = "add"} : (tensor<256xf32>, tensor<3x1xui8>, tensor<3xf32>) -> tensor<256xf32>
  "burn.return"(%0) : (tensor<256xf32>) -> ()
}
// CHECK: burn.scatter_nd

// ----- a scatter into a tensor of several numbers stays
func.func @main(%x: tensor<8xf32>, %u: tensor<3xf32>) -> tensor<8xf32> {
  %i = "burn.iota"() {axis = 0 : i64, dtype = "int64", shape = ["3", "1"]} : () -> tensor<3x1xi64>
  %0 = "burn.scatter_nd"(%x, %i, %u) {reduction = "add"} : (tensor<8xf32>, tensor<3x1xi64>, tensor<3xf32>) -> tensor<8xf32>
  "burn.return"(%0) : (tensor<8xf32>) -> ()
}
// CHECK: burn.scatter_nd

// ----- a scatter along a diagonal stays
func.func @main(%u: tensor<4xf32>) -> tensor<4x4xf32> {
  %x = "burn.full"() {bits = 0 : i64, dtype = "float32", shape = ["4", "4"]} : () -> tensor<4x4xf32>
  %i = "burn.iota"() {axis = 0 : i64, dtype = "int64", shape = ["4", "2"]} : () -> tensor<4x2xi64>
  %0 = "burn.scatter_nd"(%x, %i, %u) {reduction = "add"} : (tensor<4x4xf32>, tensor<4x2xi64>, tensor<4xf32>) -> tensor<4x4xf32>
  "burn.return"(%0) : (tensor<4x4xf32>) -> ()
}
// CHECK: burn.scatter_nd

// ----- the gradient of the first elements of a sorted row
func.func @main(%x: tensor<4x100xf32>, %u: tensor<4x10xf32>) -> tensor<4x100xf32> {
  %none = "burn.full"() {bits = 0 : i64, dtype = "float32", shape = ["4", "100"]} : () -> tensor<4x100xf32>
  %zero = "burn.full"() {bits = 0 : i64, dtype = "float32", shape = []} : () -> tensor<f32>
  %v, %i = "burn.sort"(%x) {axis = 1 : i64, descending = true} : (tensor<4x100xf32>) -> (tensor<4x100xf32>, tensor<4x100xi64>)
  %p = "burn.pad"(%u, %zero) {high = ["0", "90"], interior = array<i64>, low = ["0", "0"]} : (tensor<4x10xf32>, tensor<f32>) -> tensor<4x100xf32>
  %0 = "burn.scatter_elements"(%none, %i, %p) {axis = 1 : i64, reduction = "add"} : (tensor<4x100xf32>, tensor<4x100xi64>, tensor<4x100xf32>) -> tensor<4x100xf32>
  "burn.return"(%0) : (tensor<4x100xf32>) -> ()
}
// CHECK: [[S:%[0-9]+]]:2 = "burn.sort"(%arg0)
// CHECK: [[I:%[0-9]+]] = "burn.slice"([[S]]#1) {sizes = ["4", "10"], starts = ["0", "0"]
// CHECK: "burn.scatter_elements"(%{{.*}}, [[I]], %arg1) {axis = 1 : i64, reduction = "add"}
// CHECK-NOT: burn.pad

// ----- padding along another axis stays
func.func @main(%x: tensor<4x100xf32>, %u: tensor<3x100xf32>) -> tensor<4x100xf32> {
  %none = "burn.full"() {bits = 0 : i64, dtype = "float32", shape = ["4", "100"]} : () -> tensor<4x100xf32>
  %zero = "burn.full"() {bits = 0 : i64, dtype = "float32", shape = []} : () -> tensor<f32>
  %v, %i = "burn.sort"(%x) {axis = 1 : i64, descending = true} : (tensor<4x100xf32>) -> (tensor<4x100xf32>, tensor<4x100xi64>)
  %p = "burn.pad"(%u, %zero) {high = ["1", "0"], interior = array<i64>, low = ["0", "0"]} : (tensor<3x100xf32>, tensor<f32>) -> tensor<4x100xf32>
  %0 = "burn.scatter_elements"(%none, %i, %p) {axis = 1 : i64, reduction = "add"} : (tensor<4x100xf32>, tensor<4x100xi64>, tensor<4x100xf32>) -> tensor<4x100xf32>
  "burn.return"(%0) : (tensor<4x100xf32>) -> ()
}
// CHECK: "burn.pad"(%arg1
// CHECK: "burn.scatter_elements"
