// passes: merge_block_dots

// ----- queries and values of one row operand are one matmul; a weight of other blocks, and another row operand, stay apart
func.func @main(%x: tensor<1x64xf16>, %y: tensor<1x64xf16>) -> (tensor<1x5xf16>, tensor<1x3xf16>, tensor<1x3xf16>, tensor<1x3xf16>) {
  %w = "burn.weight"() {dtype = "uint8", key = "w", shape = ["5", "2", "16"]} : () -> tensor<5x2x16xui8>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["5", "2"]} : () -> tensor<5x2xf32>
  %v = "burn.weight"() {dtype = "uint8", key = "v", shape = ["3", "2", "16"]} : () -> tensor<3x2x16xui8>
  %t = "burn.weight"() {dtype = "float32", key = "t", shape = ["3", "2"]} : () -> tensor<3x2xf32>
  %u = "burn.weight"() {dtype = "uint8", key = "u", shape = ["3", "1", "32"]} : () -> tensor<3x1x32xui8>
  %r = "burn.weight"() {dtype = "float32", key = "r", shape = ["3", "1"]} : () -> tensor<3x1xf32>
  %0 = "burn.block_dot"(%x, %w, %s) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<5x2x16xui8>, tensor<5x2xf32>) -> tensor<1x5xf16>
  %1 = "burn.block_dot"(%x, %v, %t) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<3x2x16xui8>, tensor<3x2xf32>) -> tensor<1x3xf16>
  %2 = "burn.block_dot"(%x, %u, %r) {bits = 4 : i64, block = 64 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<3x1x32xui8>, tensor<3x1xf32>) -> tensor<1x3xf16>
  %3 = "burn.block_dot"(%y, %v, %t) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<3x2x16xui8>, tensor<3x2xf32>) -> tensor<1x3xf16>
  "burn.return"(%0, %1, %2, %3) : (tensor<1x5xf16>, tensor<1x3xf16>, tensor<1x3xf16>, tensor<1x3xf16>) -> ()
}
// CHECK: %[[W:.+]] = "burn.concat"
// CHECK-SAME: tensor<8x2x16xui8>
// CHECK: %[[S:.+]] = "burn.concat"
// CHECK: %[[D:.+]] = "burn.block_dot"(%arg0, %[[W]], %[[S]])
// CHECK: %[[Q:.+]] = "burn.slice"(%[[D]]) {{.*}}starts = ["0", "0"]
// CHECK: %[[V:.+]] = "burn.slice"(%[[D]]) {{.*}}starts = ["0", "5"]
// CHECK: "burn.block_dot"(%arg0
// CHECK: "burn.block_dot"(%arg1
// CHECK: "burn.return"(%[[Q]], %[[V]]

// ----- a large weight stays apart, with ops behind its matmul, stays
func.func @main(%x: tensor<1x8192xf16>) -> (tensor<1x4096xf16>, tensor<1x4096xf16>) {
  %w = "burn.weight"() {dtype = "uint8", key = "w", shape = ["4096", "256", "16"]} : () -> tensor<4096x256x16xui8>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["4096", "256"]} : () -> tensor<4096x256xf32>
  %0 = "burn.block_dot"(%x, %w, %s) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x8192xf16>, tensor<4096x256x16xui8>, tensor<4096x256xf32>) -> tensor<1x4096xf16>
  %1 = "burn.block_dot"(%x, %w, %s) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x8192xf16>, tensor<4096x256x16xui8>, tensor<4096x256xf32>) -> tensor<1x4096xf16>
  "burn.return"(%0, %1) : (tensor<1x4096xf16>, tensor<1x4096xf16>) -> ()
}
// CHECK-NOT: burn.concat
// CHECK-COUNT-2: "burn.block_dot"

// ----- a constant that is computed after the first matmul moves before the merged one
func.func @main(%x: tensor<1x64xf16>) -> (tensor<1x5xf16>, tensor<1x5xf16>, tensor<1x5xf16>) {
  %w = "burn.weight"() {dtype = "uint8", key = "w", shape = ["5", "2", "16"]} : () -> tensor<5x2x16xui8>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["5", "2"]} : () -> tensor<5x2xf32>
  %0 = "burn.block_dot"(%x, %w, %s) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<5x2x16xui8>, tensor<5x2xf32>) -> tensor<1x5xf16>
  %t = "burn.neg"(%s) : (tensor<5x2xf32>) -> tensor<5x2xf32>
  %1 = "burn.block_dot"(%x, %w, %t) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<5x2x16xui8>, tensor<5x2xf32>) -> tensor<1x5xf16>
  %2 = "burn.block_dot"(%x, %w, %s) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<5x2x16xui8>, tensor<5x2xf32>) -> tensor<1x5xf16>
  "burn.return"(%0, %1, %2) : (tensor<1x5xf16>, tensor<1x5xf16>, tensor<1x5xf16>) -> ()
}
// CHECK: %[[T:.+]] = "burn.neg"
// CHECK: %[[S:.+]] = "burn.concat"(%{{.+}}, %[[T]], %{{.+}})
// CHECK: "burn.block_dot"(%arg0, %{{.+}}, %[[S]]){{.*}}tensor<15x2x16xui8>
// CHECK-NOT: burn.block_dot

// ----- two matmuls whose results meet in a pointwise op are one kernel without a merge, stays
func.func @main(%x: tensor<1x64xf16>) -> tensor<1x5xf16> {
  %w = "burn.weight"() {dtype = "uint8", key = "w", shape = ["5", "2", "16"]} : () -> tensor<5x2x16xui8>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["5", "2"]} : () -> tensor<5x2xf32>
  %v = "burn.weight"() {dtype = "uint8", key = "v", shape = ["5", "2", "16"]} : () -> tensor<5x2x16xui8>
  %0 = "burn.block_dot"(%x, %w, %s) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<5x2x16xui8>, tensor<5x2xf32>) -> tensor<1x5xf16>
  %1 = "burn.block_dot"(%x, %v, %s) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<5x2x16xui8>, tensor<5x2xf32>) -> tensor<1x5xf16>
  %2 = "burn.sigmoid"(%0) : (tensor<1x5xf16>) -> tensor<1x5xf16>
  %3 = "burn.mul"(%2, %1) : (tensor<1x5xf16>, tensor<1x5xf16>) -> tensor<1x5xf16>
  "burn.return"(%3) : (tensor<1x5xf16>) -> ()
}
// CHECK-NOT: burn.concat
// CHECK-COUNT-2: "burn.block_dot"

// ----- a weight that is an input would be joined in every run, stays
func.func @main(%x: tensor<1x64xf16>, %w: tensor<5x2x16xui8>, %s: tensor<5x2xf32>) -> (tensor<1x5xf16>, tensor<1x5xf16>) {
  %0 = "burn.block_dot"(%x, %w, %s) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<5x2x16xui8>, tensor<5x2xf32>) -> tensor<1x5xf16>
  %1 = "burn.block_dot"(%x, %w, %s) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<5x2x16xui8>, tensor<5x2xf32>) -> tensor<1x5xf16>
  "burn.return"(%0, %1) : (tensor<1x5xf16>, tensor<1x5xf16>) -> ()
}
// CHECK-NOT: burn.concat
// CHECK-COUNT-2: "burn.block_dot"
