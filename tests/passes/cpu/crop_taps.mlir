// passes: crop_taps

// ----- three segments have the taps that read the image
func.func @main(%x: tensor<8x64x32xf32>, %w: tensor<128x64x3xf32>) -> tensor<8x128x32xf32> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1>, dilations = array<i64: 24>, low = ["24"], high = ["24"], groups = 1 : i64, layout = "first"} : (tensor<8x64x32xf32>, tensor<128x64x3xf32>) -> tensor<8x128x32xf32>
  "burn.return"(%0) : (tensor<8x128x32xf32>) -> ()
}
// CHECK: [[FIRST:%.*]] = "burn.conv"({{.*}}-> tensor<8x128x8xf32>
// CHECK: [[MIDDLE:%.*]] = "burn.conv"({{.*}}-> tensor<8x128x16xf32>
// CHECK: [[LAST:%.*]] = "burn.conv"({{.*}}-> tensor<8x128x8xf32>
// CHECK: "burn.concat"([[FIRST]], [[MIDDLE]], [[LAST]]) {axis = 2
