// passes: fuse

// ----- keys and values are appended by one kernel, which also computes what is appended
func.func @main(%k: tensor<8x127x64xf32>, %v: tensor<8x127x64xf32>, %a: tensor<8x1x64xf32>, %b: tensor<8x1x64xf32>) -> (tensor<8x128x64xf32>, tensor<8x128x64xf16>, tensor<8x128x64xf32>, tensor<8x128x64xf16>) {
  %0 = "burn.mul"(%a, %a) : (tensor<8x1x64xf32>, tensor<8x1x64xf32>) -> tensor<8x1x64xf32>
  %1 = "burn.add"(%0, %b) : (tensor<8x1x64xf32>, tensor<8x1x64xf32>) -> tensor<8x1x64xf32>
  %2 = "burn.mul"(%1, %b) : (tensor<8x1x64xf32>, tensor<8x1x64xf32>) -> tensor<8x1x64xf32>
  %3 = "burn.sub"(%2, %a) : (tensor<8x1x64xf32>, tensor<8x1x64xf32>) -> tensor<8x1x64xf32>
  %4 = "burn.mul"(%3, %b) : (tensor<8x1x64xf32>, tensor<8x1x64xf32>) -> tensor<8x1x64xf32>
  %5 = "burn.concat"(%k, %4) {axis = 1 : i64} : (tensor<8x127x64xf32>, tensor<8x1x64xf32>) -> tensor<8x128x64xf32>
  %6 = "burn.cast"(%5) {dtype = "float16", saturate = true} : (tensor<8x128x64xf32>) -> tensor<8x128x64xf16>
  %7 = "burn.concat"(%v, %b) {axis = 1 : i64} : (tensor<8x127x64xf32>, tensor<8x1x64xf32>) -> tensor<8x128x64xf32>
  %8 = "burn.cast"(%7) {dtype = "float16", saturate = true} : (tensor<8x128x64xf32>) -> tensor<8x128x64xf16>
  "burn.return"(%5, %6, %7, %8) : (tensor<8x128x64xf32>, tensor<8x128x64xf16>, tensor<8x128x64xf32>, tensor<8x128x64xf16>) -> ()
}
// CHECK: burn.group
// CHECK-NOT: burn.group
// CHECK: burn.return

// ----- large loops are kernels of their own, and so are loops that depend on each other
func.func @main(%x: tensor<1024x1024xf32>, %y: tensor<1024x1024xf32>, %z: tensor<4x8xf32>) -> (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = "burn.exp"(%x) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %1 = "burn.exp"(%y) : (tensor<1024x1024xf32>) -> tensor<1024x1024xf32>
  %2 = "burn.exp"(%z) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %3 = "burn.reduce"(%2) {axes = array<i64: 1>, keepdims = true, kind = "sum"} : (tensor<4x8xf32>) -> tensor<4x1xf32>
  %4 = "burn.reduce"(%3) {axes = array<i64: 0>, keepdims = true, kind = "sum"} : (tensor<4x1xf32>) -> tensor<1x1xf32>
  %5 = "burn.exp"(%4) : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %6 = "burn.exp"(%5) : (tensor<1x1xf32>) -> tensor<1x1xf32>
  %7 = "burn.sub"(%z, %6) : (tensor<4x8xf32>, tensor<1x1xf32>) -> tensor<4x8xf32>
  "burn.return"(%0, %1, %2, %7) : (tensor<1024x1024xf32>, tensor<1024x1024xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> ()
}
// CHECK-COUNT-4: burn.group
