// passes: integers

// ----- a product of dequantised matrices: the zero point of the left side is a matter of the columns' sums
// rounds
func.func @main(%x: tensor<?x8xui8, ["n", "8"]>) -> tensor<?x3xf32, ["n", "3"]> {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["8", "3"]} : () -> tensor<8x3xi8>
  %s = "burn.constant"() {dtype = "float32", values = array<f64: 0.5, 0.25, 2.0>, shape = ["3"]} : () -> tensor<3xf32>
  %a = "burn.full"() {dtype = "float32", value = 0.125 : f64, shape = []} : () -> tensor<f32>
  %z = "burn.full"() {bits = 7 : i64, dtype = "uint8", shape = [], value = 7.0 : f64} : () -> tensor<ui8>
  %0 = "burn.dequantize"(%x, %a, %z) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 1>} : (tensor<?x8xui8, ["n", "8"]>, tensor<f32>, tensor<ui8>) -> tensor<?x8xf32, ["n", "8"]>
  %1 = "burn.dequantize"(%w, %s) {axis = 1 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<8x3xi8>, tensor<3xf32>) -> tensor<8x3xf32>
  %2 = "burn.dot_general"(%0, %1) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x8xf32, ["n", "8"]>, tensor<8x3xf32>) -> tensor<?x3xf32, ["n", "3"]>
  "burn.return"(%2) : (tensor<?x3xf32, ["n", "3"]>) -> ()
}
// CHECK: burn.dot_general
// CHECK-SAME: dtype = "int32"
// CHECK-SAME: (tensor<?x8xui8, ["n", "8"]>, tensor<8x3xi8>)
// CHECK: burn.reduce
// CHECK-SAME: -> tensor<3xi32>
// CHECK: burn.sub
// CHECK: burn.mul

// ----- int8 moves by 128, and what is quantised so is quantised to uint8 from the start; uint8 weights move, too
// rounds
func.func @main(%x: tensor<5x8xf32>) -> tensor<5x3xf32> {
  %w = "burn.weight"() {dtype = "uint8", key = "w", shape = ["8", "3"]} : () -> tensor<8x3xui8>
  %a = "burn.full"() {dtype = "float32", value = 0.125 : f64, shape = []} : () -> tensor<f32>
  %z = "burn.full"() {bits = -3 : i64, dtype = "int8", shape = [], value = -3.0 : f64} : () -> tensor<i8>
  %v = "burn.full"() {bits = 131 : i64, dtype = "uint8", shape = [], value = 131.0 : f64} : () -> tensor<ui8>
  %q = "burn.quantize"(%x, %a, %z) {axis = 0 : i64, block = 0 : i64, dtype = "int8", saturate = true, segments = array<i64: 1, 1, 1>} : (tensor<5x8xf32>, tensor<f32>, tensor<i8>) -> tensor<5x8xi8>
  %0 = "burn.dequantize"(%q, %a, %z) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 1>} : (tensor<5x8xi8>, tensor<f32>, tensor<i8>) -> tensor<5x8xf32>
  %1 = "burn.dequantize"(%w, %a, %v) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 1>} : (tensor<8x3xui8>, tensor<f32>, tensor<ui8>) -> tensor<8x3xf32>
  %2 = "burn.dot_general"(%0, %1) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<5x8xf32>, tensor<8x3xf32>) -> tensor<5x3xf32>
  "burn.return"(%2) : (tensor<5x3xf32>) -> ()
}
// CHECK: value = 1.250000e+02
// CHECK-NOT: dtype = "int8", saturate
// CHECK: burn.quantize
// CHECK-SAME: -> tensor<5x8xui8>
// CHECK: burn.xor
// CHECK: burn.dot_general
// CHECK-SAME: (tensor<5x8xui8>, tensor<8x3xi8>)

// ----- integers less their zero points, as QLinearMatMul and MatMulInteger are read: int32 stays
func.func @main(%x: tensor<5x8xui8>, %z: tensor<ui8>) -> tensor<5x3xi32> {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["8", "3"]} : () -> tensor<8x3xi8>
  %0 = "burn.cast"(%x) {dtype = "int32", saturate = true} : (tensor<5x8xui8>) -> tensor<5x8xi32>
  %1 = "burn.cast"(%z) {dtype = "int32", saturate = true} : (tensor<ui8>) -> tensor<i32>
  %2 = "burn.sub"(%0, %1) : (tensor<5x8xi32>, tensor<i32>) -> tensor<5x8xi32>
  %3 = "burn.cast"(%w) {dtype = "int32", saturate = true} : (tensor<8x3xi8>) -> tensor<8x3xi32>
  %4 = "burn.dot_general"(%2, %3) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>, dtype = "int32"} : (tensor<5x8xi32>, tensor<8x3xi32>) -> tensor<5x3xi32>
  "burn.return"(%4) : (tensor<5x3xi32>) -> ()
}
// CHECK: burn.dot_general"(%arg0
// CHECK-SAME: (tensor<5x8xui8>, tensor<8x3xi8>)
// CHECK: burn.sub
// CHECK-SAME: -> tensor<5x3xi32>

// ----- padding counts as the zero point; the maximum of a window is one of bytes, and quantising it again changes nothing
// rounds
func.func @main(%x: tensor<1x4x6x6xui8>) -> tensor<1x8x6x6xf32> {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["8", "4", "3", "3"]} : () -> tensor<8x4x3x3xi8>
  %a = "burn.full"() {dtype = "float32", value = 0.125 : f64, shape = []} : () -> tensor<f32>
  %z = "burn.full"() {bits = 7 : i64, dtype = "uint8", shape = [], value = 7.0 : f64} : () -> tensor<ui8>
  %0 = "burn.dequantize"(%x, %a, %z) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 1>} : (tensor<1x4x6x6xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x4x6x6xf32>
  %1 = "burn.window_reduce"(%0) {dilations = array<i64: 1, 1, 1, 1>, high = ["0", "0", "1", "1"], kind = "max", low = ["0", "0", "1", "1"], strides = array<i64: 1, 1, 1, 1>, window = array<i64: 1, 1, 3, 3>} : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xf32>
  %q = "burn.quantize"(%1, %a, %z) {axis = 0 : i64, block = 0 : i64, dtype = "uint8", saturate = true, segments = array<i64: 1, 1, 1>} : (tensor<1x4x6x6xf32>, tensor<f32>, tensor<ui8>) -> tensor<1x4x6x6xui8>
  %2 = "burn.dequantize"(%q, %a, %z) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 1>} : (tensor<1x4x6x6xui8>, tensor<f32>, tensor<ui8>) -> tensor<1x4x6x6xf32>
  %3 = "burn.dequantize"(%w, %a) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<8x4x3x3xi8>, tensor<f32>) -> tensor<8x4x3x3xf32>
  %4 = "burn.conv"(%2, %3) {dilations = array<i64: 1, 1>, groups = 1 : i64, high = ["1", "1"], layout = "first", low = ["1", "1"], strides = array<i64: 1, 1>} : (tensor<1x4x6x6xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x6x6xf32>
  "burn.return"(%4) : (tensor<1x8x6x6xf32>) -> ()
}
// CHECK: %[[max:.*]] = "burn.window_reduce"(%arg0)
// CHECK-NOT: burn.quantize
// CHECK: "burn.conv"(%[[max]]
// CHECK-SAME: fill = 7

// ----- what follows from a product is quantised by a factor
// rounds
func.func @main(%x: tensor<5x8xui8>) -> tensor<5x3xui8> {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["8", "3"]} : () -> tensor<8x3xi8>
  %a = "burn.full"() {dtype = "float32", value = 0.125 : f64, shape = []} : () -> tensor<f32>
  %0 = "burn.dequantize"(%x, %a) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<5x8xui8>, tensor<f32>) -> tensor<5x8xf32>
  %1 = "burn.dequantize"(%w, %a) {axis = 1 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<8x3xi8>, tensor<f32>) -> tensor<8x3xf32>
  %2 = "burn.dot_general"(%0, %1) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<5x8xf32>, tensor<8x3xf32>) -> tensor<5x3xf32>
  %q = "burn.quantize"(%2, %a) {axis = 0 : i64, block = 0 : i64, dtype = "uint8", saturate = true, segments = array<i64: 1, 1, 0>} : (tensor<5x3xf32>, tensor<f32>) -> tensor<5x3xui8>
  "burn.return"(%q) : (tensor<5x3xui8>) -> ()
}
// CHECK: %[[factor:.*]] = "burn.div"
// CHECK: %[[scale:.*]] = "burn.mul"({{.*}}, %[[factor]])
// CHECK: %[[total:.*]] = "burn.mul"({{.*}}, %[[scale]])
// CHECK: "burn.quantize"(%[[total]]

// ----- a right side that is not constant, or has scales along the depth, stays
func.func @main(%x: tensor<5x8xui8>, %y: tensor<8x3xi8>) -> (tensor<5x3xf32>, tensor<5x3xf32>) {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["8", "3"]} : () -> tensor<8x3xi8>
  %a = "burn.full"() {dtype = "float32", value = 0.125 : f64, shape = []} : () -> tensor<f32>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["8"]} : () -> tensor<8xf32>
  %0 = "burn.dequantize"(%x, %a) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<5x8xui8>, tensor<f32>) -> tensor<5x8xf32>
  %1 = "burn.dequantize"(%y, %a) {axis = 1 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<8x3xi8>, tensor<f32>) -> tensor<8x3xf32>
  %2 = "burn.dequantize"(%w, %s) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<8x3xi8>, tensor<8xf32>) -> tensor<8x3xf32>
  %3 = "burn.dot_general"(%0, %1) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<5x8xf32>, tensor<8x3xf32>) -> tensor<5x3xf32>
  %4 = "burn.dot_general"(%0, %2) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<5x8xf32>, tensor<8x3xf32>) -> tensor<5x3xf32>
  "burn.return"(%3, %4) : (tensor<5x3xf32>, tensor<5x3xf32>) -> ()
}
// CHECK-NOT: int32

// ----- for a product, what a run finds the scale of is quantised by the reciprocal, of a scale that has one
// rounds
func.func @main(%x: tensor<5x8xf32>, %s: tensor<f32>, %z: tensor<ui8>) -> tensor<5x3xi32> {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["8", "3"]} : () -> tensor<8x3xi8>
  %q = "burn.quantize"(%x, %s, %z) {axis = 0 : i64, block = 0 : i64, dtype = "uint8", saturate = true, segments = array<i64: 1, 1, 1>} : (tensor<5x8xf32>, tensor<f32>, tensor<ui8>) -> tensor<5x8xui8>
  %0 = "burn.cast"(%q) {dtype = "int32", saturate = true} : (tensor<5x8xui8>) -> tensor<5x8xi32>
  %1 = "burn.cast"(%z) {dtype = "int32", saturate = true} : (tensor<ui8>) -> tensor<i32>
  %2 = "burn.sub"(%0, %1) : (tensor<5x8xi32>, tensor<i32>) -> tensor<5x8xi32>
  %3 = "burn.cast"(%w) {dtype = "int32", saturate = true} : (tensor<8x3xi8>) -> tensor<8x3xi32>
  %4 = "burn.dot_general"(%2, %3) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>, dtype = "int32"} : (tensor<5x8xi32>, tensor<8x3xi32>) -> tensor<5x3xi32>
  "burn.return"(%4) : (tensor<5x3xi32>) -> ()
}
// CHECK: burn.abs
// CHECK: %[[some:.*]] = "burn.select"
// CHECK: %[[factor:.*]] = "burn.div"({{.*}}, %[[some]])
// CHECK: %[[scaled:.*]] = "burn.mul"(%arg0, %[[factor]])
// CHECK: %[[bytes:.*]] = "burn.quantize"(%[[scaled]]
// CHECK: burn.dot_general"(%[[bytes]]

// ----- what no product reads is divided: stays
func.func @main(%x: tensor<5x8xf32>, %s: tensor<f32>, %z: tensor<ui8>) -> tensor<5x8xui8> {
  %q = "burn.quantize"(%x, %s, %z) {axis = 0 : i64, block = 0 : i64, dtype = "uint8", saturate = true, segments = array<i64: 1, 1, 1>} : (tensor<5x8xf32>, tensor<f32>, tensor<ui8>) -> tensor<5x8xui8>
  "burn.return"(%q) : (tensor<5x8xui8>) -> ()
}
// CHECK-NOT: burn.mul
// CHECK: "burn.quantize"(%arg0, %arg1

// ----- the scales of a sum of bytes absorb the factor of its quantisation
// rounds
func.func @main(%x: tensor<5x8xui8>, %y: tensor<5x8xui8>) -> tensor<5x8xui8> {
  %a = "burn.full"() {dtype = "float32", value = 0.125 : f64, shape = []} : () -> tensor<f32>
  %b = "burn.full"() {dtype = "float32", value = 0.25 : f64, shape = []} : () -> tensor<f32>
  %0 = "burn.dequantize"(%x, %a) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<5x8xui8>, tensor<f32>) -> tensor<5x8xf32>
  %1 = "burn.dequantize"(%y, %b) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<5x8xui8>, tensor<f32>) -> tensor<5x8xf32>
  %2 = "burn.add"(%0, %1) : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x8xf32>
  %q = "burn.quantize"(%2, %b) {axis = 0 : i64, block = 0 : i64, dtype = "uint8", saturate = true, segments = array<i64: 1, 1, 0>} : (tensor<5x8xf32>, tensor<f32>) -> tensor<5x8xui8>
  "burn.return"(%q) : (tensor<5x8xui8>) -> ()
}
// CHECK: %[[scale:.*]] = "burn.mul"
// CHECK: %[[one:.*]] = "burn.dequantize"(%arg0, %[[scale]])
// CHECK: %[[other:.*]] = "burn.dequantize"(%arg1
// CHECK: %[[sum:.*]] = "burn.add"(%[[one]], %[[other]])
// CHECK-NOT: burn.mul
// CHECK: "burn.quantize"(%[[sum]]

// ----- a sum of bytes that has another user is multiplied by the factor
// rounds
func.func @main(%x: tensor<5x8xui8>, %y: tensor<5x8xui8>) -> (tensor<5x8xui8>, tensor<5x8xf32>) {
  %a = "burn.full"() {dtype = "float32", value = 0.125 : f64, shape = []} : () -> tensor<f32>
  %b = "burn.full"() {dtype = "float32", value = 0.25 : f64, shape = []} : () -> tensor<f32>
  %0 = "burn.dequantize"(%x, %a) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<5x8xui8>, tensor<f32>) -> tensor<5x8xf32>
  %1 = "burn.dequantize"(%y, %b) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<5x8xui8>, tensor<f32>) -> tensor<5x8xf32>
  %2 = "burn.add"(%0, %1) : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x8xf32>
  %q = "burn.quantize"(%2, %b) {axis = 0 : i64, block = 0 : i64, dtype = "uint8", saturate = true, segments = array<i64: 1, 1, 0>} : (tensor<5x8xf32>, tensor<f32>) -> tensor<5x8xui8>
  "burn.return"(%q, %2) : (tensor<5x8xui8>, tensor<5x8xf32>) -> ()
}
// CHECK: %[[sum:.*]] = "burn.add"
// CHECK: %[[factor:.*]] = "burn.div"
// CHECK: "burn.mul"(%[[sum]], %[[factor]])
// CHECK: burn.quantize

// ----- bounds and a rectifier commute with the factor
// rounds
func.func @main(%x: tensor<5x8xui8>, %y: tensor<5x8xui8>) -> tensor<5x8xui8> {
  %a = "burn.full"() {dtype = "float32", value = 0.125 : f64, shape = []} : () -> tensor<f32>
  %b = "burn.full"() {dtype = "float32", value = 0.25 : f64, shape = []} : () -> tensor<f32>
  %0 = "burn.dequantize"(%x, %a) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<5x8xui8>, tensor<f32>) -> tensor<5x8xf32>
  %1 = "burn.dequantize"(%y, %b) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<5x8xui8>, tensor<f32>) -> tensor<5x8xf32>
  %2 = "burn.add"(%0, %1) : (tensor<5x8xf32>, tensor<5x8xf32>) -> tensor<5x8xf32>
  %3 = "burn.clip"(%2, %a, %b) {segments = array<i64: 1, 1, 1>, strict = false} : (tensor<5x8xf32>, tensor<f32>, tensor<f32>) -> tensor<5x8xf32>
  %4 = "burn.relu"(%3) : (tensor<5x8xf32>) -> tensor<5x8xf32>
  %q = "burn.quantize"(%4, %b) {axis = 0 : i64, block = 0 : i64, dtype = "uint8", saturate = true, segments = array<i64: 1, 1, 0>} : (tensor<5x8xf32>, tensor<f32>) -> tensor<5x8xui8>
  "burn.return"(%q) : (tensor<5x8xui8>) -> ()
}
// CHECK: %[[factor:.*]] = "burn.div"
// CHECK: %[[low:.*]] = "burn.mul"({{.*}}, %[[factor]])
// CHECK: %[[high:.*]] = "burn.mul"({{.*}}, %[[factor]])
// CHECK: %[[sum:.*]] = "burn.add"
// CHECK: %[[clipped:.*]] = "burn.clip"(%[[sum]], %[[low]], %[[high]])
// CHECK: %[[positive:.*]] = "burn.relu"(%[[clipped]])
// CHECK: "burn.quantize"(%[[positive]]

// ----- for a product, what is made of anything is quantised by a factor
// rounds
func.func @main(%x: tensor<5x8xf32>) -> tensor<5x3xf32> {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["8", "3"]} : () -> tensor<8x3xi8>
  %a = "burn.full"() {dtype = "float32", value = 0.125 : f64, shape = []} : () -> tensor<f32>
  %q = "burn.quantize"(%x, %a) {axis = 0 : i64, block = 0 : i64, dtype = "uint8", saturate = true, segments = array<i64: 1, 1, 0>} : (tensor<5x8xf32>, tensor<f32>) -> tensor<5x8xui8>
  %0 = "burn.dequantize"(%q, %a) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<5x8xui8>, tensor<f32>) -> tensor<5x8xf32>
  %1 = "burn.dequantize"(%w, %a) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<8x3xi8>, tensor<f32>) -> tensor<8x3xf32>
  %2 = "burn.dot_general"(%0, %1) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<5x8xf32>, tensor<8x3xf32>) -> tensor<5x3xf32>
  "burn.return"(%2) : (tensor<5x3xf32>) -> ()
}
// CHECK: %[[scaled:.*]] = "burn.mul"(%arg0
// CHECK: %[[bytes:.*]] = "burn.quantize"(%[[scaled]]
// CHECK: burn.dot_general"(%[[bytes]]

// ----- a matmul of bytes whose sums wrap around stays
func.func @main(%arg0: tensor<3x4xui8> {burn.name = "x"}) -> (tensor<3x4xui8> {burn.name = "y"}) {
  %0 = "burn.full"() {dtype = "uint8", shape = ["4", "4"], value = 3.0 : f64} : () -> tensor<4x4xui8>
  %1 = "burn.dot_general"(%arg0, %0) {lhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_batch = array<i64>, rhs_contract = array<i64: 0>} : (tensor<3x4xui8>, tensor<4x4xui8>) -> tensor<3x4xui8>
  "burn.return"(%1) : (tensor<3x4xui8>) -> ()
}
// CHECK: dot_general
// CHECK-SAME: (tensor<3x4xui8>, tensor<4x4xui8>) -> tensor<3x4xui8>
// CHECK-NOT: xi32
