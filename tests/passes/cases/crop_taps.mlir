// passes: crop_taps

// ----- one tap reads the image
// rounds
func.func @main(%x: tensor<1x4x16x16xf32>, %w: tensor<8x4x3x3xf32>) -> tensor<1x8x16x16xf32> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 24, 24>, low = ["24", "24"], high = ["24", "24"], groups = 1 : i64, layout = "first"} : (tensor<1x4x16x16xf32>, tensor<8x4x3x3xf32>) -> tensor<1x8x16x16xf32>
  "burn.return"(%0) : (tensor<1x8x16x16xf32>) -> ()
}
// CHECK: [[w:%.*]] = "burn.slice"(%arg1) {{.*}}starts = ["0", "0", "1", "1"]
// CHECK: "burn.conv"(%arg0, [[w]]) {{.*}}high = ["0", "0"]{{.*}}low = ["0", "0"]

// ----- a window that needs the first tap stays
func.func @main(%x: tensor<1x4x16xf32>, %w: tensor<8x4x3xf32>) -> tensor<1x8x16xf32> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1>, dilations = array<i64: 15>, low = ["15"], high = ["15"], groups = 1 : i64, layout = "first"} : (tensor<1x4x16xf32>, tensor<8x4x3xf32>) -> tensor<1x8x16xf32>
  "burn.return"(%0) : (tensor<1x8x16xf32>) -> ()
}
// CHECK-NOT: burn.slice
// CHECK: "burn.conv"(%arg0, %arg1)

// ----- a kernel that reads nothing stays
func.func @main(%x: tensor<1x4x5xf32>, %w: tensor<8x4x2xf32>) -> tensor<1x8x9xf32> {
  %0 = "burn.conv"(%x, %w) {strides = array<i64: 1>, dilations = array<i64: 6>, low = ["5"], high = ["5"], groups = 1 : i64, layout = "first"} : (tensor<1x4x5xf32>, tensor<8x4x2xf32>) -> tensor<1x8x9xf32>
  "burn.return"(%0) : (tensor<1x8x9xf32>) -> ()
}
// CHECK-NOT: burn.slice
// CHECK: "burn.conv"(%arg0, %arg1)
