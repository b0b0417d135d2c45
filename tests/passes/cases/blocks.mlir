// passes: blocks

// ----- a constant matrix with scales along the depth's blocks: bits in bytes, turned so that the depth is last
// rounds
func.func @main(%x: tensor<?x64xf32, ["n", "64"]>) -> tensor<?x3xf32, ["n", "3"]> {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["64", "3"]} : () -> tensor<64x3xi8>
  %v = "burn.cast"(%w) {dtype = "int4", saturate = true} : (tensor<64x3xi8>) -> tensor<64x3xi4>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["2", "3"]} : () -> tensor<2x3xf32>
  %0 = "burn.dequantize"(%v, %s) {axis = 0 : i64, block = 32 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<64x3xi4>, tensor<2x3xf32>) -> tensor<64x3xf32>
  %1 = "burn.dot_general"(%x, %0) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<?x64xf32, ["n", "64"]>, tensor<64x3xf32>) -> tensor<?x3xf32, ["n", "3"]>
  "burn.return"(%1) : (tensor<?x3xf32, ["n", "3"]>) -> ()
}
// CHECK: burn.xor
// CHECK: burn.block_dot
// CHECK-SAME: bits = 4 : i64, block = 32 : i64
// CHECK-SAME: (tensor<?x64xf32, ["n", "64"]>, tensor<3x2x16xui8>, tensor<3x2xf32>)
// CHECK-NOT: burn.dot_general

// ----- a scale for each column is one block, filled up to whole words; the zero points are numbers from 0 on
// rounds
func.func @main(%x: tensor<2x6xf32>) -> tensor<2x3xf32> {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["3", "6"]} : () -> tensor<3x6xi8>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["3"]} : () -> tensor<3xf32>
  %z = "burn.constant"() {bits = array<i64: 1, -2, 3>, dtype = "int8", values = array<f64: 1.0, -2.0, 3.0>, shape = ["3"]} : () -> tensor<3xi8>
  %0 = "burn.dequantize"(%w, %s, %z) {axis = 0 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 1>} : (tensor<3x6xi8>, tensor<3xf32>, tensor<3xi8>) -> tensor<3x6xf32>
  %1 = "burn.dot_general"(%x, %0) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<2x6xf32>, tensor<3x6xf32>) -> tensor<2x3xf32>
  "burn.return"(%1) : (tensor<2x3xf32>) -> ()
}
// CHECK: burn.pad
// CHECK: burn.block_dot
// CHECK-SAME: block = 8 : i64
// CHECK-SAME: (tensor<2x6xf32>, tensor<3x1x8xui8>, tensor<3x1xf32>, tensor<3x1xf32>)

// ----- a scale for each place of the depth: the product of floats stays
// rounds
func.func @main(%x: tensor<2x6xf32>) -> tensor<2x3xf32> {
  %w = "burn.weight"() {dtype = "int8", key = "w", shape = ["3", "6"]} : () -> tensor<3x6xi8>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["6"]} : () -> tensor<6xf32>
  %0 = "burn.dequantize"(%w, %s) {axis = 1 : i64, block = 0 : i64, dtype = "float32", segments = array<i64: 1, 1, 0>} : (tensor<3x6xi8>, tensor<6xf32>) -> tensor<3x6xf32>
  %1 = "burn.dot_general"(%x, %0) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<2x6xf32>, tensor<3x6xf32>) -> tensor<2x3xf32>
  "burn.return"(%1) : (tensor<2x3xf32>) -> ()
}
// CHECK: burn.dot_general
// CHECK-NOT: burn.block_dot

// ----- 8-bit floats with a scale for each column, before a transpose: one block, and no integers
// rounds
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x3xf32> {
  %w = "burn.weight"() {dtype = "float8_e4m3fn", key = "w", shape = ["3", "8"]} : () -> tensor<3x8xf8E4M3FN>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["3", "1"]} : () -> tensor<3x1xf32>
  %0 = "burn.cast"(%w) {dtype = "float32", saturate = true} : (tensor<3x8xf8E4M3FN>) -> tensor<3x8xf32>
  %1 = "burn.mul"(%0, %s) : (tensor<3x8xf32>, tensor<3x1xf32>) -> tensor<3x8xf32>
  %2 = "burn.transpose"(%1) {permutation = array<i64: 1, 0>} : (tensor<3x8xf32>) -> tensor<8x3xf32>
  %3 = "burn.dot_general"(%x, %2) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 0>} : (tensor<2x8xf32>, tensor<8x3xf32>) -> tensor<2x3xf32>
  "burn.return"(%3) : (tensor<2x3xf32>) -> ()
}
// CHECK-NOT: burn.xor
// CHECK: burn.block_dot
// CHECK-SAME: bits = 8 : i64, block = 8 : i64
// CHECK-SAME: (tensor<2x8xf32>, tensor<3x1x8xf8E4M3FN>, tensor<3x1xf32>)
// CHECK-NOT: burn.dot_general

// ----- 8-bit floats with scales of blocks, which a reshape joins
// rounds
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x6xf32> {
  %w = "burn.weight"() {dtype = "float8_e5m2", key = "w", shape = ["6", "8"]} : () -> tensor<6x8xf8E5M2>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["2", "1", "2", "1"]} : () -> tensor<2x1x2x1xf32>
  %0 = "burn.cast"(%w) {dtype = "float32", saturate = true} : (tensor<6x8xf8E5M2>) -> tensor<6x8xf32>
  %1 = "burn.reshape"(%0) {shape = ["2", "3", "2", "4"]} : (tensor<6x8xf32>) -> tensor<2x3x2x4xf32>
  %2 = "burn.mul"(%1, %s) : (tensor<2x3x2x4xf32>, tensor<2x1x2x1xf32>) -> tensor<2x3x2x4xf32>
  %3 = "burn.reshape"(%2) {shape = ["6", "8"]} : (tensor<2x3x2x4xf32>) -> tensor<6x8xf32>
  %4 = "burn.dot_general"(%x, %3) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<2x8xf32>, tensor<6x8xf32>) -> tensor<2x6xf32>
  "burn.return"(%4) : (tensor<2x6xf32>) -> ()
}
// CHECK: burn.block_dot
// CHECK-SAME: bits = 8 : i64, block = 4 : i64
// CHECK-SAME: (tensor<2x8xf32>, tensor<6x2x4xf8E5M2>, tensor<6x2xf32>)

// ----- 8-bit floats with a scale for each place of the depth: the matrix of floats stays
// rounds
func.func @main(%x: tensor<2x8xf32>) -> tensor<2x3xf32> {
  %w = "burn.weight"() {dtype = "float8_e4m3fn", key = "w", shape = ["3", "8"]} : () -> tensor<3x8xf8E4M3FN>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["8"]} : () -> tensor<8xf32>
  %0 = "burn.cast"(%w) {dtype = "float32", saturate = true} : (tensor<3x8xf8E4M3FN>) -> tensor<3x8xf32>
  %1 = "burn.mul"(%0, %s) : (tensor<3x8xf32>, tensor<8xf32>) -> tensor<3x8xf32>
  %2 = "burn.dot_general"(%x, %1) {lhs_batch = array<i64>, rhs_batch = array<i64>, lhs_contract = array<i64: 1>, rhs_contract = array<i64: 1>} : (tensor<2x8xf32>, tensor<3x8xf32>) -> tensor<2x3xf32>
  "burn.return"(%2) : (tensor<2x3xf32>) -> ()
}
// CHECK: burn.dot_general
// CHECK-NOT: burn.block_dot
