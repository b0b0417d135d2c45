// passes: block_words

// ----- panels of one column, and a row operand of its own type
func.func @main(%x: tensor<1x64xf16>) -> tensor<1x5xf16> {
  %w = "burn.weight"() {dtype = "uint8", key = "w", shape = ["5", "2", "16"]} : () -> tensor<5x2x16xui8>
  %s = "burn.weight"() {dtype = "float32", key = "s", shape = ["5", "2"]} : () -> tensor<5x2xf32>
  %0 = "burn.block_dot"(%x, %w, %s) {bits = 4 : i64, block = 32 : i64, segments = array<i64: 1, 1, 1, 0>} : (tensor<1x64xf16>, tensor<5x2x16xui8>, tensor<5x2xf32>) -> tensor<1x5xf16>
  "burn.return"(%0) : (tensor<1x5xf16>) -> ()
}
// CHECK: "burn.transpose"({{.*}}tensor<5x2x4x1x4xui8>
// CHECK-NOT: burn.cast
// CHECK: "burn.packed_block_dot"(%arg0
// CHECK-SAME: columns = 5
