// passes: fuse

// ----- a norm before two matmuls of a gated layer, and the op that combines these, are one group
func.func @main(%x: tensor<1x64xf32>) -> tensor<1x32xf16> {
  %a = "burn.weight"() {dtype = "uint8", key = "a", shape = ["2", "1", "8", "4", "4", "4"]} : () -> tensor<2x1x8x4x4x4xui8>
  %s = "burn.weight"() {dtype = "float16", key = "s", shape = ["2", "2", "8", "2"]} : () -> tensor<2x2x8x2xf16>
  %b = "burn.weight"() {dtype = "uint8", key = "b", shape = ["2", "1", "8", "4", "4", "4"]} : () -> tensor<2x1x8x4x4x4xui8>
  %t = "burn.weight"() {dtype = "float16", key = "t", shape = ["2", "2", "8", "2"]} : () -> tensor<2x2x8x2xf16>
  %0 = "burn.mul"(%x, %x) : (tensor<1x64xf32>, tensor<1x64xf32>) -> tensor<1x64xf32>
  %1 = "burn.reduce"(%0) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<1x64xf32>) -> tensor<1x1xf32>
  %2 = "burn.rsqrt"(%1) : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %3 = "burn.mul"(%x, %2) : (tensor<1x64xf32>, tensor<1x1xf32>) -> tensor<1x64xf32>
  %4 = "burn.cast"(%3) {dtype = "float16", saturate = true} : (tensor<1x64xf32>) -> tensor<1x64xf16>
  %5 = "burn.packed_block_dot"(%4, %a, %s) {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<2x1x8x4x4x4xui8>, tensor<2x2x8x2xf16>) -> tensor<1x32xf16>
  %6 = "burn.packed_block_dot"(%4, %b, %t) {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<2x1x8x4x4x4xui8>, tensor<2x2x8x2xf16>) -> tensor<1x32xf16>
  %7 = "burn.sigmoid"(%5) : (tensor<1x32xf16>) -> tensor<1x32xf16>
  %8 = "burn.mul"(%7, %6) : (tensor<1x32xf16>, tensor<1x32xf16>) -> tensor<1x32xf16>
  "burn.return"(%8) : (tensor<1x32xf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.reduce
// CHECK-COUNT-2: burn.packed_block_dot
// CHECK: burn.mul
// CHECK: burn.yield
// CHECK-SAME: tensor<1x32xf16>
// CHECK-NOT: burn.group

// ----- a norm that something else reads has a group of its own, like one of many rows
func.func @main(%x: tensor<1x64xf32>, %y: tensor<640x64xf32>) -> (tensor<1x32xf16>, tensor<1x64xf16>, tensor<640x32xf16>) {
  %a = "burn.weight"() {dtype = "uint8", key = "a", shape = ["2", "1", "8", "4", "4", "4"]} : () -> tensor<2x1x8x4x4x4xui8>
  %s = "burn.weight"() {dtype = "float16", key = "s", shape = ["2", "2", "8", "2"]} : () -> tensor<2x2x8x2xf16>
  %0 = "burn.reduce"(%x) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<1x64xf32>) -> tensor<1x1xf32>
  %1 = "burn.mul"(%x, %0) : (tensor<1x64xf32>, tensor<1x1xf32>) -> tensor<1x64xf32>
  %2 = "burn.cast"(%1) {dtype = "float16", saturate = true} : (tensor<1x64xf32>) -> tensor<1x64xf16>
  %3 = "burn.packed_block_dot"(%2, %a, %s) {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<2x1x8x4x4x4xui8>, tensor<2x2x8x2xf16>) -> tensor<1x32xf16>
  %4 = "burn.reduce"(%y) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<640x64xf32>) -> tensor<640x1xf32>
  %5 = "burn.mul"(%y, %4) : (tensor<640x64xf32>, tensor<640x1xf32>) -> tensor<640x64xf32>
  %6 = "burn.cast"(%5) {dtype = "float16", saturate = true} : (tensor<640x64xf32>) -> tensor<640x64xf16>
  %7 = "burn.packed_block_dot"(%6, %a, %s) {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<640x64xf16>, tensor<2x1x8x4x4x4xui8>, tensor<2x2x8x2xf16>) -> tensor<640x32xf16>
  "burn.return"(%3, %2, %7) : (tensor<1x32xf16>, tensor<1x64xf16>, tensor<640x32xf16>) -> ()
}
// CHECK-COUNT-4: burn.group

// ----- matmuls whose results meet in no op stay apart
func.func @main(%x: tensor<1x64xf16>) -> (tensor<1x32xf16>, tensor<1x32xf16>) {
  %a = "burn.weight"() {dtype = "uint8", key = "a", shape = ["2", "1", "8", "4", "4", "4"]} : () -> tensor<2x1x8x4x4x4xui8>
  %s = "burn.weight"() {dtype = "float16", key = "s", shape = ["2", "2", "8", "2"]} : () -> tensor<2x2x8x2xf16>
  %b = "burn.weight"() {dtype = "uint8", key = "b", shape = ["2", "1", "8", "4", "4", "4"]} : () -> tensor<2x1x8x4x4x4xui8>
  %0 = "burn.packed_block_dot"(%x, %a, %s) {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<2x1x8x4x4x4xui8>, tensor<2x2x8x2xf16>) -> tensor<1x32xf16>
  %1 = "burn.packed_block_dot"(%x, %b, %s) {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<2x1x8x4x4x4xui8>, tensor<2x2x8x2xf16>) -> tensor<1x32xf16>
  "burn.return"(%0, %1) : (tensor<1x32xf16>, tensor<1x32xf16>) -> ()
}
// CHECK-COUNT-2: burn.group

// ----- a few queries are rotated in the kernel of attention
func.func @main(%q: tensor<1x4x1x16xf16>, %c: tensor<1x1x1x16xf16>, %k: tensor<1x2x40x16xf16>, %v: tensor<1x2x40x16xf16>) -> tensor<1x4x1x16xf16> {
  %0 = "burn.mul"(%q, %c) : (tensor<1x4x1x16xf16>, tensor<1x1x1x16xf16>) -> tensor<1x4x1x16xf16>
  %1 = "burn.attention"(%0, %k, %v) {causal = false, scale = 0.25 : f64, segments = array<i64: 1, 1, 1, 0, 0, 0>} : (tensor<1x4x1x16xf16>, tensor<1x2x40x16xf16>, tensor<1x2x40x16xf16>) -> tensor<1x4x1x16xf16>
  "burn.return"(%1) : (tensor<1x4x1x16xf16>) -> ()
}
// CHECK: burn.group
// CHECK: burn.mul
// CHECK: burn.attention
// CHECK-NOT: burn.group

// ----- two matmuls of many rows stay apart: each is tiles of tensor cores
func.func @main(%x: tensor<640x64xf16>) -> tensor<640x32xf16> {
  %a = "burn.weight"() {dtype = "uint8", key = "a", shape = ["2", "1", "8", "4", "4", "4"]} : () -> tensor<2x1x8x4x4x4xui8>
  %s = "burn.weight"() {dtype = "float16", key = "s", shape = ["2", "2", "8", "2"]} : () -> tensor<2x2x8x2xf16>
  %b = "burn.weight"() {dtype = "uint8", key = "b", shape = ["2", "1", "8", "4", "4", "4"]} : () -> tensor<2x1x8x4x4x4xui8>
  %0 = "burn.packed_block_dot"(%x, %a, %s) {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<640x64xf16>, tensor<2x1x8x4x4x4xui8>, tensor<2x2x8x2xf16>) -> tensor<640x32xf16>
  %1 = "burn.packed_block_dot"(%x, %b, %s) {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<640x64xf16>, tensor<2x1x8x4x4x4xui8>, tensor<2x2x8x2xf16>) -> tensor<640x32xf16>
  %2 = "burn.mul"(%0, %1) : (tensor<640x32xf16>, tensor<640x32xf16>) -> tensor<640x32xf16>
  "burn.return"(%2) : (tensor<640x32xf16>) -> ()
}
// CHECK-COUNT-2: burn.group

// ----- a number of rows that is not known may be many
func.func @main(%x: tensor<?x64xf16, ["n", "64"]>) -> tensor<?x32xf16, ["n", "32"]> {
  %a = "burn.weight"() {dtype = "uint8", key = "a", shape = ["2", "1", "8", "4", "4", "4"]} : () -> tensor<2x1x8x4x4x4xui8>
  %s = "burn.weight"() {dtype = "float16", key = "s", shape = ["2", "2", "8", "2"]} : () -> tensor<2x2x8x2xf16>
  %b = "burn.weight"() {dtype = "uint8", key = "b", shape = ["2", "1", "8", "4", "4", "4"]} : () -> tensor<2x1x8x4x4x4xui8>
  %0 = "burn.packed_block_dot"(%x, %a, %s) {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<?x64xf16, ["n", "64"]>, tensor<2x1x8x4x4x4xui8>, tensor<2x2x8x2xf16>) -> tensor<?x32xf16, ["n", "32"]>
  %1 = "burn.packed_block_dot"(%x, %b, %s) {bits = 4 : i64, block = 32 : i64, columns = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<?x64xf16, ["n", "64"]>, tensor<2x1x8x4x4x4xui8>, tensor<2x2x8x2xf16>) -> tensor<?x32xf16, ["n", "32"]>
  %2 = "burn.mul"(%0, %1) : (tensor<?x32xf16, ["n", "32"]>, tensor<?x32xf16, ["n", "32"]>) -> tensor<?x32xf16, ["n", "32"]>
  "burn.return"(%2) : (tensor<?x32xf16, ["n", "32"]>) -> ()
}
// CHECK-COUNT-2: burn.group

// ----- an op reads one result at another index: a kernel has one element of each
func.func @main(%x: tensor<16x64xf16>) -> tensor<16x16xf16> {
  %a = "burn.weight"() {dtype = "uint8", key = "a", shape = ["1", "1", "8", "4", "4", "4"]} : () -> tensor<1x1x8x4x4x4xui8>
  %s = "burn.weight"() {dtype = "float16", key = "s", shape = ["1", "2", "8", "2"]} : () -> tensor<1x2x8x2xf16>
  %b = "burn.weight"() {dtype = "uint8", key = "b", shape = ["1", "1", "8", "4", "4", "4"]} : () -> tensor<1x1x8x4x4x4xui8>
  %0 = "burn.packed_block_dot"(%x, %a, %s) {bits = 4 : i64, block = 32 : i64, columns = 16 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<16x64xf16>, tensor<1x1x8x4x4x4xui8>, tensor<1x2x8x2xf16>) -> tensor<16x16xf16>
  %1 = "burn.packed_block_dot"(%x, %b, %s) {bits = 4 : i64, block = 32 : i64, columns = 16 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<16x64xf16>, tensor<1x1x8x4x4x4xui8>, tensor<1x2x8x2xf16>) -> tensor<16x16xf16>
  %2 = "burn.transpose"(%0) {permutation = array<i64: 1, 0>} : (tensor<16x16xf16>) -> tensor<16x16xf16>
  %3 = "burn.mul"(%0, %1) : (tensor<16x16xf16>, tensor<16x16xf16>) -> tensor<16x16xf16>
  %4 = "burn.add"(%3, %2) : (tensor<16x16xf16>, tensor<16x16xf16>) -> tensor<16x16xf16>
  "burn.return"(%4) : (tensor<16x16xf16>) -> ()
}
// CHECK-COUNT-2: burn.group
