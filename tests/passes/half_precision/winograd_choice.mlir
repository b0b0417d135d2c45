// passes: winograd{element=48 cached=20 constant=40 cache=16777216 bfloat16}

// ----- few channels: tiles along one axis store fewer elements
func.func @main(%x: tensor<1x96x96x32xbf16>) -> tensor<1x96x96x32xbf16> {
  %w = "burn.weight"() {dtype = "bfloat16", key = "w", shape = ["3", "3", "32", "32"]} : () -> tensor<3x3x32x32xbf16>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x96x96x32xbf16>, tensor<3x3x32x32xbf16>) -> tensor<1x96x96x32xbf16>
  "burn.return"(%0) : (tensor<1x96x96x32xbf16>) -> ()
}
// CHECK: burn.split_axis
// CHECK-NOT: burn.split_tiles

// ----- many channels: square tiles need fewer multiplications
func.func @main(%x: tensor<1x28x28x512xbf16>) -> tensor<1x28x28x512xbf16> {
  %w = "burn.weight"() {dtype = "bfloat16", key = "w", shape = ["3", "3", "512", "512"]} : () -> tensor<3x3x512x512xbf16>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, low = ["1", "1"], high = ["1", "1"], groups = 1 : i64, layout = "last"} : (tensor<1x28x28x512xbf16>, tensor<3x3x512x512xbf16>) -> tensor<1x28x28x512xbf16>
  "burn.return"(%0) : (tensor<1x28x28x512xbf16>) -> ()
}
// CHECK: burn.split_tiles
// CHECK-NOT: burn.split_axis

// ----- 16 channels of a sequence: moving elements takes what multiplications save
func.func @main(%x: tensor<1x1000x16xbf16>) -> tensor<1x998x16xbf16> {
  %w = "burn.weight"() {dtype = "bfloat16", key = "w", shape = ["3", "16", "16"]} : () -> tensor<3x16x16xbf16>
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1>, dilations = array<i64: 1>, low = ["0"], high = ["0"], groups = 1 : i64, layout = "last"} : (tensor<1x1000x16xbf16>, tensor<3x16x16xbf16>) -> tensor<1x998x16xbf16>
  "burn.return"(%0) : (tensor<1x998x16xbf16>) -> ()
}
// CHECK-NOT: burn.split_axis
